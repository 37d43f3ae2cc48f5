// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

struct replanning_options {
  double headroom = 1.2;  ///< times the rates that are expected is planned for, where there is room
  double clusters = 1.25; ///< and for that many deviations of what comes within an SLO
  double tolerance = 0.1; ///< a plan is kept while no rate is more than that part above its own
  double least_rate = 1;  ///< requests a second, of a model of which fewer come
  double fall = 0.3;      ///< nor that part below: a rate that falls less may well rise again
};

/// What to plan for, where so many requests a second are expected: of a Poisson process n come
/// within an SLO in the mean. There is room for m: what is expected is `clusters` deviations of m,
/// which are its root, below m.
///
/// Source   square-root staffing: Halfin & Whitt, Oper. Res. 29(3), 1981,
///          doi:10.1287/opre.29.3.567.
/// Differs  the deviations are of m, not of n: a Poisson process of few requests has a longer tail
///          than its deviation says.
[[nodiscard]] inline double staffed_rate(double expected, duration slo, double clusters) noexcept {
  if (!(expected > 0) || slo <= duration::zero()) return expected;
  const double n = expected * to_s(slo), half = clusters / 2;
  const double root = half + std::sqrt(n + half * half); // of m
  return (n + clusters * root) / to_s(slo);
}

/// A plan, and how many times the rates that were asked for it serves.
struct scaled_plan {
  partition_plan plan{};
  double factor = 0; ///< below 1: there are too few GPUs, and some requests are dropped
};

/// Plans for rates times the headroom, and clusters (staffed_rate); where there is no such plan,
/// for as many times as there is one, to a hundredth of that; none if there is none for a
/// millionth.
///
/// `ask` is a planner: ask(demands) is a plan or none.
///
/// Cost     one call of the planner, some 15 where the headroom has no plan, 25 where nothing has.
template <class Ask>
[[nodiscard]] std::optional<scaled_plan>
plan_with_headroom(std::span<const demand> demands, double headroom, double clusters, Ask&& ask) {
  const auto times = [&](double factor) {
    std::vector<demand> scaled(demands.begin(), demands.end());
    for (demand& d : scaled) d.rate = staffed_rate(d.rate * factor, d.slo, clusters);
    return std::optional<partition_plan>(ask(std::span<const demand>(scaled)));
  };
  double low = headroom, high = headroom;
  std::optional<partition_plan> found = times(low);
  for (; !found && low > 1e-6; found = times(low)) {
    high = low;
    low = low > 1 ? 1 : low / 2;
  }
  if (!found) { // a greedy planner may have none for less, and one for more
    for (low = headroom; !found && low < 16 * headroom; found = times(low)) low *= 2;
    if (!found) return std::nullopt;
    high = low;
  }
  while (high > low * 1.01) {
    const double middle = (low + high) / 2;
    if (std::optional<partition_plan> more = times(middle)) {
      found = std::move(more);
      low = middle;
    } else {
      high = middle;
    }
  }
  return scaled_plan{std::move(*found), low};
}

/// Says when rates have changed so much that a plan is to be made for them.
///
/// Source   Choi et al., USENIX ATC 2022, section 4.3: where a rate has risen its requests would be
///          late, and where it has fallen partitions stand idle.
/// Errors   the constructor: bad_option, one line.
class replanning {
public:
  explicit replanning(replanning_options o = {}) : options_(o) {
    const auto check = [](bool holds, const char* what, double value, const char* expected) {
      if (!holds)
        throw error(errc::bad_option,
                    std::string(what) + " of " + number_text(value) + ", expected " + expected);
    };
    check(o.headroom > 0 && std::isfinite(o.headroom), "headroom", o.headroom, "above 0");
    check(o.clusters >= 0 && std::isfinite(o.clusters), "clusters", o.clusters, "0 or more");
    check(o.tolerance >= 0 && std::isfinite(o.tolerance), "tolerance", o.tolerance, "0 or more");
    check(o.least_rate >= 0 && std::isfinite(o.least_rate), "least rate", o.least_rate,
          "0 or more");
    check(o.fall >= 0 && o.fall <= 1, "fall", o.fall, "0 to 1");
  }

  /// For the rates as measured, or as they were planned for, of models whose rates have fallen by
  /// little. None: the plan that there is goes on, for it is for such rates, or no other serves
  /// more of them. `ask` as above.
  template <class Ask>
  [[nodiscard]] std::optional<scaled_plan> replan(std::vector<demand> measured, Ask&& ask) {
    for (demand& d : measured) d.rate = std::max(d.rate, options_.least_rate);
    if (measured.size() == planned_.size())
      for (std::size_t i = 0; i < measured.size(); ++i)
        if (measured[i].rate >= planned_[i].rate * (1 - options_.fall))
          measured[i].rate = std::max(measured[i].rate, planned_[i].rate);
    if (is_near(measured)) return std::nullopt;
    std::optional<scaled_plan> found = plan_with_headroom(
        std::span<const demand>(measured), options_.headroom, options_.clusters, ask);
    if (!found || (found->factor < options_.headroom && found->factor <= served(measured)))
      return std::nullopt;
    planned_ = std::move(measured);
    factor_ = found->factor;
    return found;
  }

private:
  /// How many times those rates the plan that there is serves.
  [[nodiscard]] double served(const std::vector<demand>& measured) const {
    if (measured.size() != planned_.size()) return 0;
    double least = options_.headroom;
    for (std::size_t i = 0; i < measured.size(); ++i)
      if (measured[i].rate > 0)
        least = std::min(least, planned_[i].rate * factor_ / measured[i].rate);
    return least;
  }
  [[nodiscard]] bool is_near(const std::vector<demand>& measured) const {
    if (measured.size() != planned_.size()) return false;
    for (std::size_t i = 0; i < measured.size(); ++i)
      if (std::abs(measured[i].rate - planned_[i].rate) > options_.tolerance * planned_[i].rate)
        return false;
    return true;
  }

  replanning_options options_;
  std::vector<demand> planned_; ///< what the plan that there is was asked for
  double factor_ = 0;           ///< of that it serves
};

} // namespace gsched
