// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <cstddef>
#include <vector>

namespace gsched::detail {

/// Smooth weighted round robin: distributes requests over targets in proportion to their shares, as
/// evenly as possible. After n requests a target with share s has s n of them, within one for each
/// target.
///
/// Order    ties go to the first target.
/// Cost     O(targets); no allocation in next.
/// Threads  one owner.
class weighted_round_robin {
public:
  void clear() noexcept {
    targets_.clear();
    all_ = 0;
  }
  void add(double share) {
    assert(share > 0);
    targets_.push_back({share, 0});
    all_ += share;
  }

  [[nodiscard]] std::size_t size() const noexcept { return targets_.size(); }

  /// The target of the next request. The caller owes: there is a target.
  [[nodiscard]] std::size_t next() noexcept {
    assert(!targets_.empty());
    std::size_t most = 0;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      targets_[i].owed += targets_[i].share;
      if (targets_[i].owed > targets_[most].owed) most = i;
    }
    targets_[most].owed -= all_;
    return most;
  }

private:
  struct target {
    double share;
    double owed; ///< requests, times the sum of all shares
  };
  std::vector<target> targets_;
  double all_ = 0;
};

} // namespace gsched::detail
