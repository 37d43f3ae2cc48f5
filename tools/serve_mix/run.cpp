// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/run.hpp"

#include "serve_mix/slowdowns.hpp"

#include "common/report/progress.hpp"
#include "common/run/policy_options.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/run_in_parallel.hpp>
#include <gsched/workload/arrivals.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace serve_mix {

using namespace gsched;

namespace {

any_arrival_source arrivals_of(const options& from, const workload_facts& facts) {
  std::vector<double> weights;
  std::vector<std::string> names;
  for (const mix_entry& e : from.mix) {
    weights.push_back(e.weight);
    names.push_back(e.name);
  }
  const request_mix what(weights, from.clients);
  switch (from.arrivals.law) {
  case arrival_law::poisson:
    return open_arrivals::poisson(facts.rate_per_s.value(), what, from.seed);
  case arrival_law::lognormal:
    return open_arrivals::lognormal(facts.rate_per_s.value(), from.arrivals.sigma, what, from.seed);
  case arrival_law::closed:
    return closed_arrivals(from.arrivals.in_flight, duration::zero(), what, from.seed);
  case arrival_law::trace: break;
  }
  return trace_arrivals(from.arrivals.file.string(), names, from.clients);
}

/// One model's latency with nothing else to do.
duration solo(platform& on, const options& from, std::span<const profile> model) {
  run_result r("single", from);
  source_of one{closed_arrivals(1, duration::zero(), request_mix({1.0}, 1u), from.seed)};
  on.serve({r.policy, from, on.solo_requests(), one, model, nullptr, r, {}, [](std::uint64_t) {}});
  return summarize(r.latencies).p50;
}

run_result run_policy(platform& on, const planned_run& plan, const options& from,
                      const workload_facts& facts, std::span<const profile> models,
                      timeline* record, std::function<void(std::uint64_t)> progress) {
  const auto start = std::chrono::steady_clock::now();
  run_result result(plan.policy, from);
  result.apart = plan.apart;
  source_of source{arrivals_of(from, facts)};
  on.serve({plan.policy, from, from.requests, source, models, record, result, facts.solo,
            std::move(progress), plan.apart ? facts.apart : nullptr});
  if (from.arrivals.law == arrival_law::trace && result.submitted == 0)
    throw error(errc::bad_trace, from.arrivals.file.string() +
                                     ": no requests, expected lines of time_us,model[,client]");
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

} // namespace

std::vector<planned_run> runs_of(const options& from) {
  std::vector<planned_run> runs;
  for (const std::string& policy : from.policies) {
    runs.push_back({policy, false});
    if (from.slow_down_limit && !is_unscheduled(policy)) runs.push_back({policy, true});
  }
  return runs;
}

workload_facts facts_of(platform& on, const options& from, std::span<const profile> models) {
  workload_facts facts;
  facts.device_name = on.name();
  double weighted_ns = 0;
  double weights = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    options alone = from;
    alone.mix = {from.mix[i]};
    alone.clients = 1;
    alone.slo.reset();
    alone.decision_delay = {};
    alone.submission = submission::graph;
    const duration takes = solo(on, alone, models.subspan(i, 1));
    facts.solo.push_back(takes);
    weighted_ns += from.mix[i].weight * static_cast<double>(takes.count());
    weights += from.mix[i].weight;
  }
  if (from.slow_down_limit) find_slowdowns(on, from, models, facts);
  facts.mean_solo = duration{static_cast<duration::rep>(weighted_ns / weights)};
  if (from.load) facts.rate_per_s = *from.load / to_s(facts.mean_solo);
  if (from.rate) facts.rate_per_s = from.rate;
  if (!facts.rate_per_s) return facts;
  facts.load = *facts.rate_per_s * to_s(facts.mean_solo);
  constexpr double longest_s = 1e9; // the device's clock counts to 9.2e9
  if (!(static_cast<double>(from.requests) / *facts.rate_per_s <= longest_s))
    throw error(errc::bad_option,
                std::string(from.rate ? "--rate" : "--load") + ": so low that " +
                    std::to_string(from.requests) +
                    " requests take more than 1e9 seconds, expected a higher one");
  return facts;
}

std::vector<run_result> run_policies(platform& on, const options& from, const workload_facts& facts,
                                     std::span<const profile> models, timeline* record) {
  const std::vector<planned_run> plans = runs_of(from);
  const std::size_t threads = record == nullptr && on.runs_in_parallel()
                                  ? std::min<std::size_t>(from.threads, plans.size())
                                  : 1;
  if (threads > 1) {
    const char* const what = from.slow_down_limit ? " runs" : " policies";
    common::shared_bar bar(std::to_string(plans.size()) + what, plans.size(), from.requests,
                           from.progress);
    return gsched::run_in_parallel<run_result>(plans.size(), threads, [&](std::size_t i) {
      return run_policy(on, plans[i], from, facts, models, nullptr,
                        [&, i](std::uint64_t done) { bar.update(i, done); });
    });
  }
  std::vector<run_result> results;
  for (const planned_run& plan : plans) {
    const std::string name = plan.policy + (plan.apart ? apart_suffix : "");
    progress_bar bar(name, from.requests, from.progress);
    if (record != nullptr) record->begin_run(name);
    results.push_back(run_policy(on, plan, from, facts, models, record,
                                 [&](std::uint64_t done) { bar.update(done); }));
    if (record != nullptr) record->end_run();
  }
  return results;
}

} // namespace serve_mix
