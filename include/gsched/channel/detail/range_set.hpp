// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace gsched::channel::detail {

/// Disjoint ranges, at most as many as were reserved. Ranges of no bytes are not kept.
///
/// Cost     O(log n) comparisons and up to n moves of 16 bytes; no allocation.
class range_set {
public:
  explicit range_set(std::size_t most) { all_.reserve(most); }

  /// False if it overlaps one that is there; nothing changes then.
  [[nodiscard]] bool try_insert(const payload_range& e) noexcept {
    if (e.bytes == 0) return true;
    const auto at = after(e.offset);
    if (at != all_.end() && at->offset < e.offset + e.bytes) return false;
    if (at != all_.begin() && std::prev(at)->offset + std::prev(at)->bytes > e.offset) return false;
    all_.insert(at, e);
    return true;
  }
  void erase(const payload_range& e) noexcept {
    if (e.bytes == 0) return;
    const auto at = after(e.offset);
    if (at != all_.end() && *at == e) all_.erase(at);
  }
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

private:
  /// The first that does not begin before it.
  [[nodiscard]] std::vector<payload_range>::iterator after(std::uint64_t offset) noexcept {
    return std::lower_bound(all_.begin(), all_.end(), offset,
                            [](const payload_range& e, std::uint64_t o) { return e.offset < o; });
  }

  std::vector<payload_range> all_; ///< by offset
};

} // namespace gsched::channel::detail
