// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace gsched {

/// Prevents overflow of a notification ring by delaying dispatch: it counts the words that
/// dispatched kernels may still write. Each group of blocks writes two words, one for its start and
/// one for its end, so at most half as many groups are outstanding as the ring has slots.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 5.2.
/// Errors   releasing more words than are reserved is counted as a violation and changes nothing.
/// Threads  one owner, the reader of the ring; no locking. A kernel is launched after its
///          reservation; no other ordering is needed.
class flow_control {
public:
  explicit flow_control(std::size_t slots) noexcept : slots_(slots) {}

  /// Reserves these words if the ring has room for them, before the launch. Returns whether it did.
  [[nodiscard]] bool try_reserve(std::uint64_t words) noexcept {
    if (words > slots_ - reserved_) return false;
    reserved_ += words;
    total_ += words;
    return true;
  }

  /// Returns words that were written and read, when their segment has ended.
  void release(std::uint64_t words) noexcept {
    if (words > reserved_) {
      ++violations_;
      return;
    }
    reserved_ -= words;
  }

  /// Returns words that will never be written, because their segment was withdrawn before it
  /// started.
  void cancel(std::uint64_t words) noexcept {
    if (words > reserved_) {
      ++violations_;
      return;
    }
    reserved_ -= words;
    total_ -= words;
  }

  /// Refuses a segment that writes more words than the ring has slots, because it could never be
  /// dispatched. Set-up.
  ///
  /// Errors   too_small.
  void expect_fits(std::uint64_t words) const {
    if (words > slots_)
      throw error(errc::too_small, "notification ring of " + std::to_string(slots_) +
                                       " slots, expected at least " + std::to_string(words) +
                                       " for one segment");
  }

  [[nodiscard]] std::uint64_t reserved() const noexcept { return reserved_; }
  [[nodiscard]] std::uint64_t violations() const noexcept { return violations_; }
  /// The number of words that were or may still be written since the start. Once reserved() is
  /// zero, the ring has given out exactly that many tickets.
  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }

private:
  std::uint64_t slots_;
  std::uint64_t reserved_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t violations_ = 0;
};

} // namespace gsched
