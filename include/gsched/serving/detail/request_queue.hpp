// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched {

/// A request that waits for its batch, or runs in it.
struct waiting_request {
  std::uint64_t id = 0; ///< the caller's
  time_point deadline{};
  bool operator==(const waiting_request&) const noexcept = default;
};

/// Requests in the order in which they came.
///
/// Cost     O(1); it allocates only when more wait than ever before.
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

private:
  void grow() {
    std::vector<waiting_request> larger(ring_.empty() ? 64 : 2 * ring_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = (*this)[i];
    ring_.swap(larger);
    first_ = 0;
  }

  std::vector<waiting_request> ring_; ///< a power of two of them
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

} // namespace gsched
