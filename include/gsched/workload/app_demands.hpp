// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/workload/app.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// The latency of an app if each request of model m takes `each[m]`: the length of the critical
/// path.
[[nodiscard]] inline duration critical_path(const app& a, std::span<const duration> each) {
  std::vector<duration> until(a.stages.size());
  duration all{};
  for (std::size_t s = 0; s < a.stages.size(); ++s) {
    for (const std::size_t before : a.stages[s].after) until[s] = std::max(until[s], until[before]);
    all = std::max(all, until[s] += each[a.stages[s].model]);
  }
  return all;
}

namespace detail {

/// By stage: the length of the longest path through that stage if each request of model m takes
/// `each[m]`.
[[nodiscard]] inline std::vector<duration> longest_paths(const app& a,
                                                         std::span<const duration> each) {
  std::vector<duration> until(a.stages.size()), after(a.stages.size());
  for (std::size_t s = 0; s < a.stages.size(); ++s) {
    for (const std::size_t before : a.stages[s].after) until[s] = std::max(until[s], until[before]);
    until[s] += each[a.stages[s].model];
  }
  for (std::size_t s = a.stages.size(); s-- > 0;)
    for (const std::size_t before : a.stages[s].after)
      after[before] = std::max(after[before], each[a.stages[s].model] + after[s]);
  for (std::size_t s = 0; s < until.size(); ++s) until[s] += after[s];
  return until;
}

} // namespace detail

/// By stage: the SLO of the stage's requests. If every stage meets its SLO, every path through the
/// app meets the app's SLO. A stage gets the share of the app's SLO that its model's own SLO has of
/// the longest path through the stage.
///
/// `slos` are by model, each above 0.
[[nodiscard]] inline std::vector<duration> stage_slos(const app& a,
                                                      std::span<const duration> slos) {
  std::vector<duration> each = detail::longest_paths(a, slos);
  for (std::size_t s = 0; s < each.size(); ++s) {
    const auto own = static_cast<double>(slos[a.stages[s].model].count());
    const double part = own * static_cast<double>(a.slo.count());
    each[s] = duration{static_cast<duration::rep>(part / static_cast<double>(each[s].count()))};
  }
  return each;
}

/// By model: the shortest stage SLO of all stages that request the model. A model that no app
/// requests keeps its SLO in `slos`.
[[nodiscard]] inline std::vector<duration> model_slos(std::span<const app> apps,
                                                      std::vector<duration> slos) {
  std::vector<duration> least(slos.size(), duration::max());
  for (const app& a : apps) {
    const std::vector<duration> each = stage_slos(a, slos);
    for (std::size_t s = 0; s < each.size(); ++s) {
      duration& of = least[a.stages[s].model];
      of = std::min(of, each[s]);
    }
  }
  for (std::size_t m = 0; m < slos.size(); ++m)
    if (least[m] < duration::max()) slos[m] = least[m];
  return slos;
}

/// The load that apps put on models: `rates` are requests a second by app, `slos` the models' own
/// SLOs. The demands' SLOs are those of model_slos.
///
/// Order    models in the order of their first stage.
[[nodiscard]] inline std::vector<model_demand>
demands_of(std::span<const app> apps, std::span<const double> rates, std::vector<duration> slos) {
  const std::vector<duration> least = model_slos(apps, std::move(slos));
  std::vector<model_demand> all;
  for (std::size_t a = 0; a < apps.size(); ++a)
    for (const app_stage& s : apps[a].stages) {
      auto at = std::find_if(all.begin(), all.end(),
                             [&](const model_demand& d) { return d.model == s.model; });
      if (at == all.end()) at = all.insert(at, {s.model, 0, least[s.model]});
      at->rate += rates[a] * s.requests;
    }
  return all;
}

/// Checks that no stage SLO is below the shortest of the stage's model.
///
/// Errors   bad_option, one line that names the app and the shortest SLO that passes.
inline void check(const app& a, const latency_table& t, std::span<const duration> slos,
                  served_by by = served_by::plan) {
  const std::vector<duration> paths = detail::longest_paths(a, slos), each = stage_slos(a, slos);
  duration wanted{};
  std::size_t tightest = 0; // stage
  for (std::size_t s = 0; s < a.stages.size(); ++s) {
    const std::size_t m = a.stages[s].model;
    const duration least = shortest_slo(t, m, by);
    if (each[s] >= least) continue;
    const double all = static_cast<double>(least.count()) * static_cast<double>(paths[s].count());
    const double exact = std::ceil(all / static_cast<double>(slos[m].count()));
    const duration slo{static_cast<duration::rep>(std::min(exact, 9e18))};
    if (slo > wanted) tightest = s;
    wanted = std::max(wanted, slo);
  }
  if (wanted == duration::zero()) return;
  const std::size_t m = a.stages[tightest].model;
  throw error(errc::bad_option,
              a.name + ": SLO of " + number_text(to_us(a.slo)) + " us, expected at least " +
                  number_text(to_us(wanted)) + ", of which " + t.name(m) + " has " +
                  (by == served_by::plan ? "twice " : "") + "its fastest latency, " +
                  number_text(to_us(shortest_slo(t, m, by))) + " us" +
                  (by == served_by::plan ? ": a request waits for one batch and "
                                           "takes another"
                                         : ""));
}

} // namespace gsched
