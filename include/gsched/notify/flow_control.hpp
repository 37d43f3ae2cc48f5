// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace gsched {

/// Keeps a ring from overflowing by delaying dispatch: it counts the words that dispatched kernels
/// may still write. A group of blocks writes two, its start and its end, so that as many block
/// groups are let out as half of the slots.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 5.2.
/// Errors   releasing more than was reserved is counted and changes nothing.
/// Threads  one owner, the one who reads the ring; no locking. Who writes the ring learns of a
///          reservation by being launched after it, which is all the ordering there is.
class flow_control {
public:
  explicit flow_control(std::size_t slots) noexcept : slots_(slots) {}

  /// Whether these words fit now; if so they are reserved. Before a launch.
  [[nodiscard]] bool try_reserve(std::uint64_t words) noexcept {
    if (words > slots_ - reserved_) return false;
    reserved_ += words;
    total_ += words;
    return true;
  }

  /// These words were written and read. At the end of what was launched.
  void release(std::uint64_t words) noexcept {
    if (words > reserved_) {
      ++violations_;
      return;
    }
    reserved_ -= words;
  }

  /// These words will never be written: what was launched was withdrawn before it began.
  void cancel(std::uint64_t words) noexcept {
    if (words > reserved_) {
      ++violations_;
      return;
    }
    reserved_ -= words;
    total_ -= words;
  }

  /// For set-up: a kernel of more words than the ring has slots could never be launched.
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
  /// Words that have been, or may still be, written since the start. Once reserved() is zero, a
  /// ring has given out exactly that many tickets.
  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }

private:
  std::uint64_t slots_;
  std::uint64_t reserved_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t violations_ = 0;
};

} // namespace gsched
