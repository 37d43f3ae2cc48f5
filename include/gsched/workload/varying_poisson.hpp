// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/workload/random.hpp>
#include <gsched/workload/rate_curve.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace gsched {

/// A non-homogeneous Poisson process: arrival times at the rate of a curve, until `end`.
///
/// Order    times never fall. Equal arguments give equal times.
/// Cost     next O(1), plus O(1) for each step of the curve that it passes; no allocation.
class varying_poisson {
public:
  varying_poisson(rate_curve curve, time_point end, std::uint64_t seed)
      : curve_(std::move(curve)), end_(ns(end)), random_(seed) {}

  /// The next arrival time; empty after the last one.
  [[nodiscard]] std::optional<time_point> next() {
    double left = draw_exponential(random_); // expected number of arrivals until the next one
    for (; step_ < curve_.size(); ++step_) {
      const double until =
          step_ + 1 < curve_.size() ? std::min(end_, ns(curve_[step_ + 1].at)) : end_;
      at_ = std::max(at_, ns(curve_[step_].at));
      const double per_ns = curve_[step_].rate * 1e-9;
      const double in_step = std::max(0.0, until - at_) * per_ns;
      if (left < in_step) {
        at_ += left / per_ns;
        return time_point{duration{static_cast<duration::rep>(at_)}};
      }
      left -= in_step;
      at_ = std::max(at_, until);
    }
    return std::nullopt;
  }

private:
  [[nodiscard]] static double ns(time_point t) noexcept {
    return static_cast<double>(t.time_since_epoch().count());
  }

  rate_curve curve_;
  double end_;
  random_engine random_;
  std::size_t step_ = 0; ///< of the curve
  double at_ = 0;        ///< nanoseconds
};

} // namespace gsched
