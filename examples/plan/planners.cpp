// SPDX-License-Identifier: Apache-2.0
#include "plan/planners.hpp"

#include <gsched/partition/best.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/ideal.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>
#include <gsched/partition/verify.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace plan {

namespace {

using namespace gsched;

using planners = std::tuple<squishy_bin_packing, elastic_partitioning, guided_self_tuning,
                            best_partitioning, ideal_partitioning>;

/// f(planner) for each, until one says true.
template <class F>
bool any_planner(F f) {
  return std::apply([&](const auto&... p) { return (f(p) || ...); }, planners{});
}

} // namespace

bool is_planner(std::string_view name) {
  return any_planner([&](const auto& p) { return p.name == name; });
}

std::string all_planners() {
  std::string names;
  any_planner([&](const auto& p) {
    names += (names.empty() ? "" : ",") + std::string(p.name);
    return false;
  });
  return names;
}

answer ask(std::string_view planner, const latency_table& t, std::span<const demand> demands,
           std::span<const gpu_shape> gpus) {
  answer a;
  any_planner([&](const auto& p) {
    if (p.name != planner) return false;
    const auto begin = std::chrono::steady_clock::now();
    if constexpr (requires { p.decide(t, demands, gpus); }) {
      partition_decision said = p.decide(t, demands, gpus);
      a = {std::move(said.plan), {}, said.known == verdict::impossible, std::nullopt};
      if (std::isfinite(said.bound)) a.bound = said.bound;
    } else {
      a.plan = p.plan(t, demands, gpus);
    }
    a.took = std::chrono::steady_clock::now() - begin;
    return true;
  });
  if (!a.plan) return a;
  const std::vector<std::string> faults = faults_of(*a.plan, demands, t, gpus);
  if (!faults.empty())
    throw std::runtime_error("a plan of " + std::string(planner) + " is wrong: " + faults.front());
  return a;
}

double max_scale(std::string_view planner, const latency_table& t, std::span<const demand> demands,
                 std::span<const gpu_shape> gpus) {
  const auto has_plan = [&](double scale) {
    std::vector<demand> scaled(demands.begin(), demands.end());
    for (demand& d : scaled) d.rate *= scale;
    return ask(planner, t, scaled, gpus).plan.has_value();
  };
  if (std::none_of(demands.begin(), demands.end(), [](const demand& d) { return d.rate > 0; }))
    return 0;
  double low = 0, high = 1;
  while (high < 1e12 && has_plan(high)) low = std::exchange(high, 2 * high);
  for (double least = high; low == 0 && least > 1e-9;)
    has_plan(least /= 2) ? low = least : high = least;
  while (low > 0 && high > low * 1.001) {
    const double middle = (low + high) / 2;
    (has_plan(middle) ? low : high) = middle;
  }
  return low;
}

std::uint64_t sms_of(const partition_plan& p) {
  std::uint64_t all = 0;
  for (const gpulet& g : p.gpulets) all += g.sms.count();
  return all;
}

double worst_of(const partition_plan& p, const latency_table& t, std::span<const demand> demands) {
  double worst = 0;
  for (const gpulet& g : p.gpulets)
    for (const portion& s : g.portions)
      for (const demand& d : demands)
        if (d.model == s.model)
          worst =
              std::max(worst, to_us(g.cycle + t.latency(s.model, s.batch, g.sms)) / to_us(d.slo));
  return worst;
}

} // namespace plan
