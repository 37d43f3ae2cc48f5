// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace measure {

/// Shares the time of a run out over its parts, which run one after another. What a part leaves is
/// shared out over those that follow.
///
/// Units    seconds since the run's begin.
class time_shares {
public:
  /// `weights` of the parts, above 0.
  time_shares(double seconds, std::vector<double> weights)
      : seconds_(seconds), weights_(std::move(weights)) {}

  /// When a part that begins now has to end.
  [[nodiscard]] double until(std::size_t part, double now) const noexcept {
    const double rest =
        std::accumulate(weights_.begin() + static_cast<std::ptrdiff_t>(part), weights_.end(), 0.0);
    const double left = seconds_ > now ? seconds_ - now : 0;
    return now + left * weights_[part] / rest;
  }

private:
  double seconds_;
  std::vector<double> weights_;
};

/// What is left of a part, in seconds: at the pace so far, and at most until its time is over.
[[nodiscard]] inline double seconds_left(std::size_t done, std::size_t all, double spent,
                                         double until_end) noexcept {
  if (done == 0) return until_end;
  const double at_pace =
      spent / static_cast<double>(done) * static_cast<double>(all > done ? all - done : 0);
  return at_pace < until_end ? at_pace : until_end;
}

} // namespace measure
