// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/serving/waiting_request.hpp>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::detail {

/// A FIFO queue of requests.
///
/// Cost     O(1). It allocates only if more requests wait than ever before.
/// Threads  one owner.
class request_queue {
public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] const waiting_request& operator[](std::size_t i) const noexcept {
    assert(i < size_);
    return ring_[(first_ + i) & (ring_.size() - 1)];
  }

  void push(const waiting_request& r) {
    if (size_ == ring_.size()) grow();
    ring_[(first_ + size_++) & (ring_.size() - 1)] = r;
  }
  waiting_request pop() noexcept {
    assert(size_ > 0);
    const waiting_request r = ring_[first_];
    first_ = (first_ + 1) & (ring_.size() - 1);
    --size_;
    return r;
  }
  /// Takes a request out, wherever it is; false if it is not there.
  /// Cost     O(requests before it).
  bool erase(std::uint64_t id) noexcept {
    const std::size_t mask = ring_.size() - 1;
    for (std::size_t i = 0; i < size_; ++i) {
      if ((*this)[i].id != id) continue;
      for (; i > 0; --i) ring_[(first_ + i) & mask] = ring_[(first_ + i - 1) & mask];
      first_ = (first_ + 1) & mask;
      --size_;
      return true;
    }
    return false;
  }

private:
  void grow() {
    std::vector<waiting_request> larger(ring_.empty() ? 64 : 2 * ring_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = (*this)[i];
    ring_.swap(larger);
    first_ = 0;
  }

  std::vector<waiting_request> ring_; ///< its size is a power of two, or 0
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

} // namespace gsched::detail
