// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/run.hpp"

#include "common/cli/option_values.hpp"
#include "common/input/planner_list.hpp"

#include <gsched/partition/contention_interference.hpp>
#include <gsched/partition/sharing.hpp>
#include <gsched/partition/verify.hpp>
#include <gsched/serving/plan_service.hpp>
#include <gsched/serving/replanning.hpp>
#include <gsched/serving/simulated_batches.hpp>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace serve_partitions {

using namespace gsched;

namespace {

/// What plans and the frontend assume. The use of a batch is that of the uncorrected table.
contention_interference planned_interference(const options& o, const solo_table& metrics) {
  return {*o.table, metrics, *o.planned, o.shared_planned.get(), shared_sm_margin};
}
contention_interference planned_interference(const options& o) {
  return planned_interference(o, o.solo);
}

interference_function true_interference(const options& o) {
  if (!o.truth) return {};
  return contention_interference(*o.table, o.true_solo, *o.truth, o.shared_truth.get(),
                                 o.shared_error - 1);
}

/// Every GPU whole, for all models or, at the same time, for each of them, with the largest batches
/// that leave half of the SLO for waiting; this plan guarantees nothing.
partition_plan whole_gpus(const options& o, const latency_table& table,
                          std::span<const model_demand> demands) {
  partition_plan plan;
  for (std::size_t g = 0; g < o.gpus.size(); ++g)
    for (const model_demand& d : demands) {
      if (has_streams(o.planner) || &d == &demands.front())
        plan.gpulets.push_back({static_cast<std::uint32_t>(g),
                                o.gpus[g].sms,
                                duration::max(),
                                {},
                                has_streams(o.planner) ? 1u : 0u});
      gpulet& all = plan.gpulets.back();
      std::uint32_t batch = 1;
      while (batch < table.batches(d.model).back() &&
             2 * table.latency(d.model, batch + 1, all.sms) <= d.slo)
        ++batch;
      all.portions.push_back({d.model, d.rate / static_cast<double>(o.gpus.size()), batch});
      all.cycle = std::min(all.cycle, d.slo / 2);
    }
  return plan;
}

template <class Interference>
std::optional<partition_plan> ask(const options& o, const latency_table& table,
                                  std::span<const model_demand> demands,
                                  const Interference& beside) {
  if (!has_plans(o.planner)) return whole_gpus(o, table, demands);
  std::optional<partition_plan> plan;
  common::any_planner([&](const auto& p) {
    if (p.name != o.planner) return false;
    if constexpr (shared_sm_interference<Interference>)
      plan = o.shared_planned ? sharing_planner(p).plan(table, demands, o.gpus, beside)
                              : p.plan(table, demands, o.gpus, beside);
    else
      plan = p.plan(table, demands, o.gpus, beside);
    return true;
  });
  if (plan)
    if (const auto faults = faults_of(*plan, demands, table, o.gpus, beside); !faults.empty())
      throw std::runtime_error("a plan of " + o.planner + " is wrong: " + faults.front());
  return plan;
}

} // namespace

planner_function planner_of(const options& o) {
  return [&o](const latency_table& table, std::span<const model_demand> demands) {
    if (!o.planned) return ask(o, table, demands, no_interference{});
    return ask(o, table, demands, planned_interference(o));
  };
}

interference_function expected_of(const options& o) {
  if (!o.planned) return {};
  return planned_interference(o);
}

plan_service_options service_of(const options& o) {
  plan_service_options s = o.service;
  if (!o.learns) return s;
  const auto rules = [&o](std::span<const corun_factors> learned) {
    const auto metrics = std::make_shared<solo_table>(with_factors(o.solo, *o.table, learned));
    return plan_rules{
        [&o, metrics](const latency_table& table, std::span<const model_demand> demands) {
          return ask(o, table, demands, planned_interference(o, *metrics));
        },
        [metrics, beside = planned_interference(o, *metrics)](
            std::span<const gpulet> all, std::size_t which, std::size_t model) {
          return beside(all, which, model);
        }};
  };
  s.learning.emplace(interference_learning{planned_interference(o), rules});
  return s;
}

std::string beyond_fit(const options& o, const partition_plan& plan) {
  if (!o.planned || !has_plans(o.planner)) return {};
  return planned_interference(o).beyond_fit(plan);
}

double scale_to_most(options& o) {
  if (!has_plans(o.planner))
    common::refuse("--max-rates", common::in_quotes(o.planner) + " plans nothing", "a planner");
  std::vector<model_demand> demands = offered_demands(o.apps, o.slos);
  const planner_function planner = planner_of(o);
  const replanning_options& how = o.service.replanning;
  double times = 1;
  std::optional<scaled_plan> most;
  while (times < 1e9) { // while there is a plan for all of it
    most = plan_with_headroom(demands, how.headroom, how.clusters,
                              [&](auto d) { return planner(*o.table, d); });
    if (!most || most->factor < how.headroom) break;
    times *= 4;
    for (model_demand& d : demands) d.rate *= 4;
  }
  if (!most)
    common::refuse("--max-rates", "no plan of " + o.planner + " for these rates or less",
                   "more GPUs or longer SLOs");
  times *= most->factor / how.headroom;
  for (offered_app& a : o.apps)
    for (rate_curve* c : {&a.expected, &a.actual})
      for (rate_step& s : *c) s.rate *= times;
  return times;
}

#ifndef GSCHED_TOOLS_CUDA
served run_on_gpus(const options& o) { common::no_cuda(o.device); }
#endif

served run(const options& o) {
  if (o.device.gpu) return run_on_gpus(o);
  const interference_function truth = true_interference(o), expected = expected_of(o);
  const planner_function planner = planner_of(o);
  const latency_table times = with_corrections(*o.table, o.true_slowdown);
  simulated_batches runner(times, truth, o.gpus.size(), o.prepare);
  return {plan_service(*o.table, o.slos, o.gpus, o.apps, service_of(o), planner, expected, runner)
              .run(),
          {}};
}

} // namespace serve_partitions
