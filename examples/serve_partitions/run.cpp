// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/run.hpp"

#include "parts/planner_list.hpp"

#include <gsched/partition/linear_interference.hpp>
#include <gsched/partition/verify.hpp>
#include <gsched/sim/plan_service.hpp>
#include <gsched/sim/simulated_batches.hpp>

#include <stdexcept>

namespace serve_partitions {

using namespace gsched;
using namespace gsched::sim;

namespace {

interference_function to_function(const options& o, const std::optional<linear_law>& law) {
  if (!law) return {};
  return linear_interference(*o.table, o.solo, *law);
}

template <class Interference>
std::optional<partition_plan> ask(const options& o, std::span<const demand> demands,
                                  const Interference& beside) {
  std::optional<partition_plan> plan;
  parts::any_planner([&](const auto& p) {
    if (p.name != o.planner) return false;
    plan = p.plan(*o.table, demands, o.gpus, beside);
    return true;
  });
  if (plan)
    if (const auto faults = faults_of(*plan, demands, *o.table, o.gpus, beside); !faults.empty())
      throw std::runtime_error("a plan of " + o.planner + " is wrong: " + faults.front());
  return plan;
}

} // namespace

planner_function planner_of(const options& o) {
  return [&o](std::span<const demand> demands) {
    if (!o.planned) return ask(o, demands, no_interference{});
    return ask(o, demands, linear_interference(*o.table, o.solo, *o.planned));
  };
}

interference_function expected_of(const options& o) { return to_function(o, o.planned); }

#ifndef GSCHED_EXAMPLES_CUDA
served run_on_gpus(const options& o) { parts::no_cuda(o.device); }
#endif

served run(const options& o) {
  if (o.device.gpu) return run_on_gpus(o);
  const interference_function truth = to_function(o, o.truth), expected = expected_of(o);
  const planner_function planner = planner_of(o);
  simulated_batches runner(*o.table, truth, o.gpus.size(), o.prepare);
  return {
      plan_service(*o.table, o.slos, o.gpus, o.apps, o.service, planner, expected, runner).run(),
      {}};
}

} // namespace serve_partitions
