// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/access_set.hpp>

#include <cstdint>
#include <iterator>
#include <map>

namespace gsched::detail {

/// The last accesses to each byte, as intervals of memory with equal history. Operations are
/// numbered from 1; 0 is none.
///
/// Cost     update: O(log n) of n intervals, and O(1) for each interval that it touches. Adjacent
///          intervals of equal history are merged, so a single write leaves one interval.
class access_history {
public:
  struct state {
    std::uint32_t wrote_first = 0; ///< the last operation whose first access is a write
    std::uint32_t read = 0;        ///< the last operation that reads
    bool operator==(const state&) const noexcept = default;
  };

  void clear() noexcept { intervals_.clear(); }

  /// Calls f(byte_range, state&) for each interval of the range, by rising address.
  template <class F>
  void update(const byte_range& range, F&& f) {
    if (range.empty()) return;
    split(range.first);
    split(range.last);
    auto at = intervals_.lower_bound(range.first);
    for (std::uint64_t from = range.first; from < range.last; ++at) {
      if (at == intervals_.end() || at->first != from) { // no access yet
        const std::uint64_t to =
            at == intervals_.end() || at->first > range.last ? range.last : at->first;
        at = intervals_.emplace_hint(at, from, interval{to, {}});
      }
      f(byte_range{from, at->second.last}, at->second.history);
      from = at->second.last;
      at = merged(at);
    }
    if (at != intervals_.end()) merged(at);
  }

private:
  struct interval {
    std::uint64_t last;
    state history;
  };
  using intervals = std::map<std::uint64_t, interval>;

  void split(std::uint64_t address) {
    auto after = intervals_.lower_bound(address);
    if (after == intervals_.begin()) return;
    const auto around = std::prev(after);
    if (around->second.last <= address) return;
    intervals_.emplace_hint(after, address, around->second);
    around->second.last = address;
  }

  /// Merges the interval with the one before it, if they touch and have equal histories.
  intervals::iterator merged(intervals::iterator at) {
    if (at == intervals_.begin()) return at;
    const auto before = std::prev(at);
    if (before->second.last != at->first || !(before->second.history == at->second.history))
      return at;
    before->second.last = at->second.last;
    intervals_.erase(at);
    return before;
  }

  intervals intervals_;
};

} // namespace gsched::detail
