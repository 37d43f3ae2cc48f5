// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/workload/random.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gsched::sim {

/// A rate that holds from a time on, until the next.
struct rate_step {
  time_point at{};
  double rate = 0; ///< requests a second
  bool operator==(const rate_step&) const noexcept = default;
};
/// Times rise; before the first nothing comes.
using rate_curve = std::vector<rate_step>;

/// How far the rates that come are from those that are expected.
struct rate_error {
  double part = 0;      ///< of the rate
  bool is_fixed = true; ///< always that; else evenly drawn from -part to part, again and again
  duration every = std::chrono::seconds{20};
};

/// What comes where a curve is expected.
/// Errors   bad_option for a part that is not above -1, or that is drawn and not in [0, 1), and for
///          drawing again after 0 or less.
[[nodiscard]] inline rate_curve with_error(const rate_curve& expected, const rate_error& e,
                                           time_point end, std::uint64_t seed) {
  if (!std::isfinite(e.part) || !(e.part > -1) || (!e.is_fixed && (e.part < 0 || e.part >= 1)))
    throw error(errc::bad_option, "rate error of " + number_text(e.part) + ", expected " +
                                      (e.is_fixed ? "above -1" : "0 to below 1"));
  if (!e.is_fixed && e.every <= duration::zero())
    throw error(errc::bad_option, "rate errors every " + std::to_string(e.every.count()) +
                                      " ns, expected more than 0");
  rate_curve comes = expected;
  if (e.is_fixed || e.part == 0) {
    for (rate_step& s : comes) s.rate *= 1 + e.part;
    return comes;
  }
  comes.clear();
  random_engine random(seed);
  std::size_t next = 0; // of expected
  double rate = 0;
  for (time_point from{}; from < end; from = saturating_add(from, e.every)) {
    const double factor = 1 + e.part * (2 * uniform(random) - 1);
    comes.push_back({from, rate * factor});
    for (; next < expected.size() && expected[next].at < saturating_add(from, e.every); ++next) {
      rate = expected[next].rate;
      if (comes.back().at == expected[next].at) comes.pop_back();
      comes.push_back({expected[next].at, rate * factor});
    }
  }
  return comes;
}

/// A Poisson process whose rate follows a curve, until an end.
///
/// Cost     O(1) a request and step; no allocation. Equal arguments give equal requests.
class varying_poisson {
public:
  varying_poisson(rate_curve curve, time_point end, std::uint64_t seed)
      : curve_(std::move(curve)), end_(ns(end)), random_(seed) {}

  [[nodiscard]] std::optional<time_point> next() {
    double wanted = exponential(random_); // of requests that are expected to come until then
    for (; step_ < curve_.size(); ++step_) {
      const double until =
          step_ + 1 < curve_.size() ? std::min(end_, ns(curve_[step_ + 1].at)) : end_;
      at_ = std::max(at_, ns(curve_[step_].at));
      const double per_ns = curve_[step_].rate * 1e-9;
      const double coming = std::max(0.0, until - at_) * per_ns;
      if (wanted < coming) {
        at_ += wanted / per_ns;
        return time_point{duration{static_cast<duration::rep>(at_)}};
      }
      wanted -= coming;
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
  std::size_t step_ = 0;
  double at_ = 0;
};

} // namespace gsched::sim
