// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/model_demand.hpp>
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

/// Parameters of replanning.
struct replanning_options {
  double headroom = 1.2;  ///< factor on the expected rates, if the GPUs can serve that
  double clusters = 1.25; ///< safety margin, in standard deviations of the requests within an SLO
  double tolerance = 0.1; ///< a plan is kept while no rate rises by more than this part
  double least_rate = 1;  ///< requests a second: lower bound of a planned rate
  double fall = 0.3;      ///< a rate that falls by at most this part counts as unchanged
};

/// The rate to plan for, so that bursts of a Poisson process rarely exceed the capacity. On average
/// n requests arrive within an SLO. The planned capacity m within an SLO lies `clusters` standard
/// deviations, sqrt(m) each, above n.
///
/// Source   square-root staffing: Halfin & Whitt, Oper. Res. 29(3), 1981,
///          doi:10.1287/opre.29.3.567.
/// Differs  the standard deviation is that of m, not of n: the tail of a Poisson process of few
///          requests is longer than its standard deviation suggests.
[[nodiscard]] inline double staffed_rate(double expected, duration slo, double clusters) noexcept {
  if (!(expected > 0) || slo <= duration::zero()) return expected;
  const double n = expected * to_s(slo), half = clusters / 2;
  const double root = half + std::sqrt(n + half * half); // sqrt(m)
  return (n + clusters * root) / to_s(slo);
}

/// A plan, and the factor on the requested rates that it serves.
struct scaled_plan {
  partition_plan plan{};
  double factor = 0; ///< below 1: too few GPUs; some requests will be dropped
};

/// Plans for the rates times `headroom`, with the margin of staffed_rate. If there is no such plan,
/// it searches the largest smaller factor that has one, to 1%. Empty if there is none for a factor
/// of 1e-6.
///
/// `ask` is a planner: ask(demands) returns a plan or nothing.
///
/// Cost     one call of the planner; some 15 if the headroom has no plan; 25 if there is no plan.
template <class Ask>
[[nodiscard]] std::optional<scaled_plan> plan_with_headroom(std::span<const model_demand> demands,
                                                            double headroom, double clusters,
                                                            Ask&& ask) {
  const auto times = [&](double factor) {
    std::vector<model_demand> scaled(demands.begin(), demands.end());
    for (model_demand& d : scaled) d.rate = staffed_rate(d.rate * factor, d.slo, clusters);
    return std::optional<partition_plan>(ask(std::span<const model_demand>(scaled)));
  };
  double low = headroom, high = headroom;
  std::optional<partition_plan> found = times(low);
  for (; !found && low > 1e-6; found = times(low)) {
    high = low;
    low = low > 1 ? 1 : low / 2;
  }
  if (!found) { // a greedy planner can fail at a rate and succeed at a higher one
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

/// Decides when measured rates have changed so much that a new plan is made.
///
/// Source   Choi et al., USENIX ATC 2022, section 4.3: after a rise requests would be late, after a
///          fall partitions would idle.
/// Errors   the constructor: bad_option, one line.
/// Threads  one owner.
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

  /// Makes a plan for the measured rates; a rate that fell only a little keeps its former value.
  /// Empty: the current plan stays, because the rates are near its own or because no other plan
  /// serves more of them. `ask` is a planner, as for plan_with_headroom.
  template <class Ask>
  [[nodiscard]] std::optional<scaled_plan> replan(std::vector<model_demand> measured, Ask&& ask) {
    for (model_demand& d : measured) d.rate = std::max(d.rate, options_.least_rate);
    if (measured.size() == planned_.size())
      for (std::size_t i = 0; i < measured.size(); ++i)
        if (measured[i].rate >= planned_[i].rate * (1 - options_.fall))
          measured[i].rate = std::max(measured[i].rate, planned_[i].rate);
    if (is_near(measured)) return std::nullopt;
    std::optional<scaled_plan> found = plan_with_headroom(
        std::span<const model_demand>(measured), options_.headroom, options_.clusters, ask);
    if (!found || (found->factor < options_.headroom && found->factor <= served(measured)))
      return std::nullopt;
    planned_ = std::move(measured);
    factor_ = found->factor;
    return found;
  }

private:
  /// The factor on these rates that the current plan serves.
  [[nodiscard]] double served(const std::vector<model_demand>& measured) const {
    if (measured.size() != planned_.size()) return 0;
    double least = options_.headroom;
    for (std::size_t i = 0; i < measured.size(); ++i)
      if (measured[i].rate > 0)
        least = std::min(least, planned_[i].rate * factor_ / measured[i].rate);
    return least;
  }
  [[nodiscard]] bool is_near(const std::vector<model_demand>& measured) const {
    if (measured.size() != planned_.size()) return false;
    for (std::size_t i = 0; i < measured.size(); ++i)
      if (std::abs(measured[i].rate - planned_[i].rate) > options_.tolerance * planned_[i].rate)
        return false;
    return true;
  }

  replanning_options options_;
  std::vector<model_demand> planned_; ///< rates that the current plan was made for
  double factor_ = 0;                 ///< factor on planned_ that it serves
};

} // namespace gsched
