// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace gsched::detail {

/// The steps that a search has left. Searches count steps, not time, so that they end at the same
/// place on every machine.
class work_budget {
public:
  explicit work_budget(std::uint64_t steps) noexcept : left_(steps) {}
  /// Spends steps. Returns false if none are left.
  [[nodiscard]] bool try_spend(std::uint64_t steps = 1) noexcept {
    left_ -= std::min(left_, steps);
    return left_ > 0;
  }
  /// Drops all steps that are left, so that the search ends.
  void give_up() noexcept { left_ = 0; }
  [[nodiscard]] std::uint64_t left() const noexcept { return left_; }

private:
  std::uint64_t left_;
};

} // namespace gsched::detail
