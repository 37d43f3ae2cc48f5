// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/access_set.hpp>

#include <cstdint>
#include <iterator>
#include <map>

namespace gsched::detail {

/// Who accessed each byte last, as pieces of memory of equal history. Operations are counted from
/// 1; 0 is none.
///
/// Cost     update: O(log n) and O(1) for each of the pieces that it goes over, of n. Pieces of
/// equal
///          history that touch become one, so what one write covers is one piece afterwards.
class access_history {
public:
  struct state {
    std::uint32_t wrote_first = 0; ///< the last whose first access is known to be a write
    std::uint32_t read = 0;        ///< the last to read
    bool operator==(const state&) const noexcept = default;
  };

  void clear() noexcept { pieces_.clear(); }

  /// f(byte_range, state&) for each piece of the range, by rising address.
  template <class F>
  void update(const byte_range& range, F&& f) {
    if (range.empty()) return;
    split(range.first);
    split(range.last);
    auto at = pieces_.lower_bound(range.first);
    for (std::uint64_t from = range.first; from < range.last; ++at) {
      if (at == pieces_.end() || at->first != from) { // nobody was here
        const std::uint64_t to =
            at == pieces_.end() || at->first > range.last ? range.last : at->first;
        at = pieces_.emplace_hint(at, from, piece{to, {}});
      }
      f(byte_range{from, at->second.last}, at->second.history);
      from = at->second.last;
      at = merged(at);
    }
    if (at != pieces_.end()) merged(at);
  }

private:
  struct piece {
    std::uint64_t last;
    state history;
  };
  using pieces = std::map<std::uint64_t, piece>;

  void split(std::uint64_t address) {
    auto after = pieces_.lower_bound(address);
    if (after == pieces_.begin()) return;
    const auto around = std::prev(after);
    if (around->second.last <= address) return;
    pieces_.emplace_hint(after, address, around->second);
    around->second.last = address;
  }

  /// With the piece before it, where they touch and are alike.
  pieces::iterator merged(pieces::iterator at) {
    if (at == pieces_.begin()) return at;
    const auto before = std::prev(at);
    if (before->second.last != at->first || !(before->second.history == at->second.history))
      return at;
    before->second.last = at->second.last;
    pieces_.erase(at);
    return before;
  }

  pieces pieces_;
};

} // namespace gsched::detail
