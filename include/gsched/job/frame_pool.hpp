// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace gsched {

/// Memory for coroutine frames, in size classes of 128 bytes. Freed blocks are used again. Frames
/// larger than the last class come from the global heap.
///
/// Differs  a header word before each frame names its pool, because operator delete receives no
///          context.
/// Errors   allocate throws std::bad_alloc.
/// Cost     O(1); allocates only when more blocks of a class are in use than ever before.
/// Threads  one owner; no locking. Outlives its blocks.
class frame_pool {
public:
  static constexpr std::size_t step = 128;
  static constexpr std::size_t largest = 4096;

  frame_pool() noexcept = default;
  frame_pool(const frame_pool&) = delete;
  frame_pool& operator=(const frame_pool&) = delete;
  ~frame_pool() { assert(out_ == 0); }

  /// Allocates from `pool`, or from the global heap if it is null. Aligned like operator new.
  [[nodiscard]] static void* allocate(frame_pool* pool, std::size_t bytes) {
    const std::size_t whole = bytes + sizeof(header);
    if (whole > largest) pool = nullptr;
    void* const block = pool != nullptr ? pool->take(class_of(whole)) : ::operator new(whole);
    return new (block) header{pool} + 1;
  }

  static void deallocate(void* frame, std::size_t bytes) noexcept {
    header* const h = static_cast<header*>(frame) - 1;
    if (h->pool != nullptr)
      h->pool->give(h, class_of(bytes + sizeof(header)));
    else
      ::operator delete(h);
  }

  /// Reserves memory for this many frames of `bytes` bytes.
  void reserve(std::size_t frames, std::size_t bytes) {
    const std::size_t whole = bytes + sizeof(header);
    if (whole <= largest) grow(class_of(whole), frames);
  }

  [[nodiscard]] std::size_t in_use() const noexcept { return out_; }

private:
  struct alignas(__STDCPP_DEFAULT_NEW_ALIGNMENT__) header {
    frame_pool* pool;
  };
  struct spare {
    spare* next;
  };

  [[nodiscard]] static std::size_t class_of(std::size_t whole) noexcept {
    return (whole - 1) / step;
  }

  void* take(std::size_t size_class) {
    if (spares_[size_class] == nullptr) grow(size_class, 16);
    spare* const s = spares_[size_class];
    spares_[size_class] = s->next;
    ++out_;
    return s;
  }

  void give(void* block, std::size_t size_class) noexcept {
    spares_[size_class] = new (block) spare{spares_[size_class]};
    --out_;
  }

  void grow(std::size_t size_class, std::size_t frames) {
    const std::size_t each = (size_class + 1) * step;
    chunks_.push_back(std::make_unique<std::byte[]>(each * frames));
    for (std::size_t i = frames; i-- > 0;)
      spares_[size_class] = new (chunks_.back().get() + i * each) spare{spares_[size_class]};
  }

  std::array<spare*, largest / step> spares_{};
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::size_t out_ = 0;
};

} // namespace gsched
