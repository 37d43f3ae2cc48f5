// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <cstddef>
#include <vector>

namespace gsched {

/// Deals requests out to several takers in proportion to their shares, as evenly as can be: smooth
/// weighted round robin. Of n dealt, a taker with a share of s has s n, give or take one a taker.
///
/// Order    ties to the first.
/// Cost     O(takers); no allocation in next. Threads  one owner.
class planned_shares {
public:
  void clear() noexcept {
    takers_.clear();
    all_ = 0;
  }
  void add(double share) {
    assert(share > 0);
    takers_.push_back({share, 0});
    all_ += share;
  }

  [[nodiscard]] std::size_t size() const noexcept { return takers_.size(); }

  /// Whose turn it is; there is a taker.
  [[nodiscard]] std::size_t next() noexcept {
    assert(!takers_.empty());
    std::size_t most = 0;
    for (std::size_t i = 0; i < takers_.size(); ++i) {
      takers_[i].owed += takers_[i].share;
      if (takers_[i].owed > takers_[most].owed) most = i;
    }
    takers_[most].owed -= all_;
    return most;
  }

private:
  struct taker {
    double share;
    double owed; ///< in requests times all_
  };
  std::vector<taker> takers_;
  double all_ = 0;
};

} // namespace gsched
