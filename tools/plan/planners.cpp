// SPDX-License-Identifier: Apache-2.0
#include "plan/planners.hpp"

#include "plan/plan_facts.hpp"

#include "common/cli/option_values.hpp"
#include "common/input/planner_list.hpp"

#include <gsched/partition/sharing.hpp>
#include <gsched/partition/verify.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace plan {

namespace {

using gsched::model_demand;
using gsched::no_interference;

constexpr std::string_view with_law = "+int", with_sharing = "+share"; ///< suffixes

template <class Planner, class Interference>
answer ask_one(const Planner& p, const question& q, const Interference& beside) {
  answer a;
  const auto begin = std::chrono::steady_clock::now();
  if constexpr (requires { p.solve(q.table, q.demands, q.gpus, beside); }) {
    gsched::planning_result decision = p.solve(q.table, q.demands, q.gpus, beside);
    a.plan = std::move(decision.plan);
    a.is_proven_impossible = decision.status == gsched::feasibility::infeasible;
    if (decision.status == gsched::feasibility::unknown) a.is_cut_short = decision.is_cut_short;
    if (std::isfinite(decision.bound)) a.bound = decision.bound;
  } else {
    a.plan = p.plan(q.table, q.demands, q.gpus, beside);
  }
  a.took = std::chrono::steady_clock::now() - begin;
  if (!a.plan) return a;
  const std::vector<std::string> faults = faults_of(*a.plan, q.demands, q.table, q.gpus, beside);
  if (!faults.empty())
    throw std::runtime_error("a plan of " + std::string(p.name) + " is wrong: " + faults.front());
  return a;
}

/// No plan serves more than that many times the rates.
double bound_of(const question& q) {
  constexpr gsched::search_budget little{1, 1, 1};
  const double bound = gsched::exact_planner(little).solve(q.table, q.demands, q.gpus).bound;
  return std::isfinite(bound) ? bound : 1e12;
}

} // namespace

std::vector<planner_choice> read_planners(const std::string& text) {
  std::vector<planner_choice> chosen;
  const auto add = [&](planner_choice c) {
    if (std::find(chosen.begin(), chosen.end(), c) != chosen.end())
      common::refuse("--planner", c.name() + " twice", "each once");
    chosen.push_back(std::move(c));
  };
  for (const std::string& word : common::to_list("--planner", text)) {
    const bool shares = word.ends_with(with_sharing);
    const bool with = shares || word.ends_with(with_law);
    const std::string base = word.substr(0, with ? word.rfind('+') : word.size());
    if (base == "all") {
      for (const std::string& name : common::to_list("--planner", common::all_planners()))
        if (!with || !common::is_whole(name)) add({name, with, shares});
      continue;
    }
    if (!common::is_planner(base))
      common::refuse("--planner", "unknown planner " + common::in_quotes(word),
                     "all, or some of " + common::all_planners() + ", with +int, +share or neither",
                     gsched::errc::unknown_name);
    if (with && common::is_whole(base))
      common::refuse("--planner", word + " uses whole GPUs, without interference", base);
    add({base, with, shares});
  }
  return chosen;
}

answer ask(const planner_choice& planner, const question& q) {
  answer a;
  common::any_planner([&](const auto& p) {
    if (p.name != planner.base) return false;
    a = planner.shares_sms          ? ask_one(gsched::sharing_planner(p), q, q.beside.value())
        : planner.with_interference ? ask_one(p, q, q.beside.value())
                                    : ask_one(p, q, no_interference{});
    return true;
  });
  if (!a.plan || !q.beside) return a;
  a.holds = planner.with_interference || faults_beside(*a.plan, q).empty();
  a.holds_longer = *a.holds || faults_beside(with_longer_cycles(*a.plan, q, *q.beside), q).empty();
  return a;
}

std::vector<std::string> faults_beside(const gsched::partition_plan& p, const question& q) {
  if (!q.beside) return {};
  return faults_of(p, q.demands, q.table, q.gpus, *q.beside);
}

double max_scale(const planner_choice& planner, const question& q, const scale_progress& step) {
  std::vector<model_demand> scaled(q.demands.begin(), q.demands.end());
  constexpr double few = 0.25, least = 1e-9; // of the bound
  const auto known = planner.with_interference ? q.beside : std::nullopt;
  std::uint64_t tried = 0;
  const auto has_plan = [&](double scale) {
    constexpr std::uint64_t usual = 80; // from the bound to a quarter of it, and to a thousandth
    if (step) step(tried, std::max(usual, tried + 1));
    ++tried;
    for (std::size_t d = 0; d < scaled.size(); ++d) scaled[d].rate = q.demands[d].rate * scale;
    return ask(planner, {q.table, scaled, q.gpus, known}).plan.has_value();
  };
  if (std::none_of(q.demands.begin(), q.demands.end(),
                   [](const model_demand& d) { return d.rate > 0; }))
    return 0;
  constexpr double step_down = 0.98, large_step_down = 0.9;
  constexpr int above = 20; // steps: the bound does not count shared SMs
  const double bound = bound_of(q);
  double high = bound * (planner.shares_sms ? std::pow(step_down, -above) : 1), low = high;
  for (; !has_plan(low); low *= low > few * bound ? step_down : large_step_down) {
    if (low < bound * least) return 0;
    high = low;
  }
  while (high > low * 1.001) {
    const double middle = (low + high) / 2;
    (has_plan(middle) ? low : high) = middle;
  }
  return low;
}

} // namespace plan
