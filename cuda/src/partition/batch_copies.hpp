// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/memory_kind.hpp>
#include <gsched/cuda/partition/partition_batches.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gsched::cuda {

/// A copy of so many bytes.
struct planned_copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::uint64_t bytes = 0;
};

/// The copies of a batch in one direction, for the GPU and for the host: what goes to or comes from
/// pageable memory is staged in pinned memory.
struct copy_list {
  std::vector<planned_copy> by_gpu{};
  std::vector<planned_copy> by_host{};
};

/// What the driver knows of memory; another one in tests.
struct driver_memory {
  [[nodiscard]] memory_kind kind(const void* p) const noexcept { return kind_of_memory(p); }
  [[nodiscard]] std::uintptr_t allocation(const void* p) const noexcept {
    return allocation_of_memory(p);
  }
};

/// The bytes that a batch has in some buffers.
[[nodiscard]] inline std::uint64_t bytes_of(std::span<const batch_buffer> buffers,
                                            std::uint32_t batch) noexcept {
  std::uint64_t sum = 0;
  for (const batch_buffer& b : buffers) sum += b.bytes * batch;
  return sum;
}

/// Plans the copies between the buffers of a program and the memory of a batch's requests: of
/// request r and buffer b to or from `data[r x buffers + b]`, where that is not null. Copies that
/// continue each other on both sides become one, within an allocation.
///
/// `staging` returns pinned memory of bytes_of(buffers, batch); it is called only if it is needed.
///
/// Cost     two calls of the driver for each address.
class copy_planner {
public:
  template <class Memory, class Staging>
  [[nodiscard]] static copy_list in(std::span<const batch_buffer> buffers,
                                    std::span<const void* const> data, std::uint32_t batch,
                                    const Memory& memory, Staging staging) {
    copy_list all;
    visit(buffers, data, batch, memory, staging,
          [&](std::byte* on_gpu, const std::byte* there, std::byte* staged, std::uint64_t bytes,
              bool continues) {
            if (staged != nullptr) all.by_host.push_back({staged, there, bytes});
            append(all.by_gpu, {on_gpu, staged != nullptr ? staged : there, bytes}, continues);
          });
    return all;
  }
  template <class Memory, class Staging>
  [[nodiscard]] static copy_list out(std::span<const batch_buffer> buffers,
                                     std::span<void* const> data, std::uint32_t batch,
                                     const Memory& memory, Staging staging) {
    copy_list all;
    visit(buffers, data, batch, memory, staging,
          [&](std::byte* on_gpu, std::byte* there, std::byte* staged, std::uint64_t bytes,
              bool continues) {
            if (staged != nullptr) all.by_host.push_back({there, staged, bytes});
            append(all.by_gpu, {staged != nullptr ? staged : there, on_gpu, bytes}, continues);
          });
    return all;
  }

private:
  /// Calls copy(on the GPU, there, staged or null, bytes, whether it is in the former's
  /// allocation).
  template <class Address, class Memory, class Staging, class Copy>
  static void visit(std::span<const batch_buffer> buffers, std::span<Address> data,
                    std::uint32_t batch, const Memory& memory, Staging& staging, Copy copy) {
    std::byte* stage = nullptr;
    std::uint64_t before = 0; // bytes of the buffers before this one
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      const std::uint64_t bytes = buffers[b].bytes;
      std::uintptr_t last = 0; // allocation of the copy before
      for (std::size_t r = 0; r < batch; ++r) {
        auto* const there = as_bytes(data[r * buffers.size() + b]);
        if (there == nullptr) {
          last = 0;
          continue;
        }
        std::byte* const on_gpu = static_cast<std::byte*>(buffers[b].device) + r * bytes;
        std::byte* staged = nullptr;
        std::uintptr_t here = 0;
        if (memory.kind(there) == memory_kind::pageable) {
          if (stage == nullptr) stage = staging();
          staged = stage + before + r * bytes;
          here = reinterpret_cast<std::uintptr_t>(stage);
        } else {
          here = memory.allocation(there);
        }
        copy(on_gpu, there, staged, bytes, here != 0 && here == last);
        last = here;
      }
      before += bytes * batch;
    }
  }
  [[nodiscard]] static const std::byte* as_bytes(const void* p) noexcept {
    return static_cast<const std::byte*>(p);
  }
  [[nodiscard]] static std::byte* as_bytes(void* p) noexcept { return static_cast<std::byte*>(p); }

  static void append(std::vector<planned_copy>& all, const planned_copy& c, bool continues) {
    if (continues) {
      planned_copy& last = all.back();
      if (last.to + last.bytes == c.to && last.from + last.bytes == c.from) {
        last.bytes += c.bytes;
        return;
      }
    }
    all.push_back(c);
  }
};

} // namespace gsched::cuda
