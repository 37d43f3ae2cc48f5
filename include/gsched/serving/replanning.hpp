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

/// What serving learned beyond the rates, by model; empty: nothing.
struct learned_factors {
  std::span<const double> corrections{}; ///< on batch times, see time_corrections
  std::span<const double> margins{};     ///< on rates, see violation_margins
};

/// Decides when measured rates or batch times have changed so much that a new plan is made.
///
/// Source   Choi et al., USENIX ATC 2022, section 4.3: after a rise requests would be late, after a
///          fall partitions would idle.
/// Differs  corrections of batch times (serving/learning/time_corrections.hpp) count as rates do:
///          any rise, and a fall by more than `fall`.
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

  /// Whether rates and what was learned are near the current plan's, so that replan makes none.
  /// Factors that are empty are not compared.
  [[nodiscard]] bool is_near(std::span<const model_demand> measured,
                             const learned_factors& learned) const {
    return is_near(basis_of(measured, learned));
  }

  /// Makes the next replan ask for a plan even if the rates are as planned.
  void forget() {
    planned_ = {};
    factor_ = 0;
  }

  /// Makes a plan for the measured rates times their margins, and for corrected batch times; what
  /// fell only a little keeps its former value. Empty: the current plan stays, because all of that
  /// is near its own or because no other plan serves more.
  ///
  /// `ask` is a planner: ask(demands, corrections) returns a plan or nothing. Where there is no
  /// room for the margins with all of the headroom, margins change nothing: they would take SMs
  /// from models that need them as much. If there is no plan at any rate with these corrections,
  /// because an SLO is too short for them, the plan is for the largest roots of them that have one:
  /// c^(3/4), c^(1/2), ...
  template <class Ask>
  [[nodiscard]] std::optional<scaled_plan> replan(std::span<const model_demand> measured,
                                                  const learned_factors& learned, Ask&& ask) {
    plan_basis now = basis_of(measured, learned);
    if (is_near(now)) return std::nullopt;
    std::optional<scaled_plan> found;
    if (std::any_of(now.margins.begin(), now.margins.end(), [](double m) { return m != 1; })) {
      std::vector<model_demand> more = now.demands;
      for (model_demand& d : more)
        d.rate = staffed_rate(d.rate * now.margins[d.model] * options_.headroom, d.slo,
                              options_.clusters);
      if (auto plan =
              ask(std::span<const model_demand>(more), std::span<const double>(now.corrections)))
        found = scaled_plan{std::move(*plan), options_.headroom};
      if (!found && is_near(basis_of(measured, {learned.corrections, {}}))) {
        planned_.margins = std::move(now.margins); // no other reason for a plan
        return std::nullopt;
      }
    }
    for (double part = 1; !found && part >= 0; part -= 0.25) { // exponent of the corrections
      std::vector<double> with = now.corrections;
      for (double& c : with) c = std::pow(c, part);
      found = plan_with_headroom(
          std::span<const model_demand>(now.demands), options_.headroom, options_.clusters,
          [&](std::span<const model_demand> d) { return ask(d, std::span<const double>(with)); });
      if (with == std::vector<double>(with.size(), 1.0)) break;
    }
    if (!found || (found->factor < options_.headroom && found->factor <= served(now)))
      return std::nullopt;
    planned_ = std::move(now);
    factor_ = found->factor;
    return found;
  }

private:
  /// What a plan is made for.
  struct plan_basis {
    std::vector<model_demand> demands{};
    std::vector<double> corrections{}; ///< by model; empty: none
    std::vector<double> margins{};     ///< by model; empty: none
  };

  /// What to plan for: values that fell a little stay as they were planned.
  [[nodiscard]] plan_basis basis_of(std::span<const model_demand> measured,
                                    const learned_factors& learned) const {
    plan_basis b{{measured.begin(), measured.end()},
                 {learned.corrections.begin(), learned.corrections.end()},
                 {learned.margins.begin(), learned.margins.end()}};
    for (model_demand& d : b.demands) d.rate = std::max(d.rate, options_.least_rate);
    const auto keep = [&](double& value, double planned) {
      if (value >= planned * (1 - options_.fall)) value = std::max(value, planned);
    };
    if (b.demands.size() == planned_.demands.size())
      for (std::size_t i = 0; i < b.demands.size(); ++i)
        keep(b.demands[i].rate, planned_.demands[i].rate);
    const auto keep_all = [&](std::vector<double>& values, const std::vector<double>& planned) {
      for (std::size_t m = 0; m < values.size() && m < planned.size(); ++m)
        keep(values[m], planned[m]);
    };
    keep_all(b.corrections, planned_.corrections);
    keep_all(b.margins, planned_.margins);
    return b;
  }

  [[nodiscard]] bool is_near(const plan_basis& b) const {
    if (b.demands.size() != planned_.demands.size()) return false;
    for (std::size_t i = 0; i < b.demands.size(); ++i)
      if (std::abs(b.demands[i].rate - planned_.demands[i].rate) >
          options_.tolerance * planned_.demands[i].rate)
        return false;
    return (b.corrections.empty() || b.corrections == planned_.corrections) &&
           (b.margins.empty() || b.margins == planned_.margins);
  }

  /// The factor on these rates that the current plan serves; 0 if batches take longer than it
  /// assumes, because it then keeps no SLO for sure.
  [[nodiscard]] double served(const plan_basis& now) const {
    if (now.demands.size() != planned_.demands.size()) return 0;
    for (std::size_t m = 0; m < now.corrections.size(); ++m)
      if (m >= planned_.corrections.size() || now.corrections[m] > planned_.corrections[m])
        return 0;
    double least = options_.headroom;
    for (std::size_t i = 0; i < now.demands.size(); ++i)
      if (now.demands[i].rate > 0)
        least = std::min(least, planned_.demands[i].rate * factor_ / now.demands[i].rate);
    return least;
  }

  replanning_options options_;
  plan_basis planned_{}; ///< what the current plan was made for; without margins if too much
  double factor_ = 0;    ///< factor on the planned rates that it serves
};

} // namespace gsched
