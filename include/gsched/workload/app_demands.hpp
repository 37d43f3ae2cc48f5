// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/workload/app.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched::sim {

/// How long an app takes if each request of a model takes `each`, by model.
[[nodiscard]] inline duration slowest_way(const app& a, std::span<const duration> each) {
  std::vector<duration> until(a.stages.size());
  duration all{};
  for (std::size_t s = 0; s < a.stages.size(); ++s) {
    for (const std::size_t before : a.stages[s].after) until[s] = std::max(until[s], until[before]);
    all = std::max(all, until[s] += each[a.stages[s].model]);
  }
  return all;
}

/// By stage: `each` along the slowest way through the app that passes there.
[[nodiscard]] inline std::vector<duration> ways_through(const app& a,
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

/// What each stage may take, so that the app is in time whichever way through it is slowest: the
/// app's SLO is shared out along the slowest way through the stage, in proportion to the models'
/// own SLOs. These are above 0.
[[nodiscard]] inline std::vector<duration> stage_slos(const app& a,
                                                      std::span<const duration> slos) {
  std::vector<duration> each = ways_through(a, slos);
  for (std::size_t s = 0; s < each.size(); ++s) {
    const auto own = static_cast<double>(slos[a.stages[s].model].count());
    const double part = own * static_cast<double>(a.slo.count());
    each[s] = duration{static_cast<duration::rep>(part / static_cast<double>(each[s].count()))};
  }
  return each;
}

/// The SLOs of the models that apps ask for, by model: the least that any of their stages leaves
/// it. Those of other models stay as they are.
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

/// What apps ask of models at so many requests a second each; models as they first come, their SLOs
/// as in model_slos.
[[nodiscard]] inline std::vector<demand>
demands_of(std::span<const app> apps, std::span<const double> rates, std::vector<duration> slos) {
  const std::vector<duration> least = model_slos(apps, std::move(slos));
  std::vector<demand> all;
  for (std::size_t a = 0; a < apps.size(); ++a)
    for (const app_stage& s : apps[a].stages) {
      auto at =
          std::find_if(all.begin(), all.end(), [&](const demand& d) { return d.model == s.model; });
      if (at == all.end()) at = all.insert(at, {s.model, 0, least[s.model]});
      at->rate += rates[a] * s.requests;
    }
  return all;
}

/// Refuses an app whose SLO leaves a stage less than its model takes at best.
/// Errors   bad_option, one line that names the app and the SLO that would do.
inline void check(const app& a, const latency_table& t, std::span<const duration> slos) {
  const std::vector<duration> ways = ways_through(a, slos), each = stage_slos(a, slos);
  duration wanted{};
  std::size_t tightest = 0; // stage
  for (std::size_t s = 0; s < a.stages.size(); ++s) {
    const std::size_t m = a.stages[s].model;
    const duration least = t.latency(m, 1, t.sizes(m).back());
    if (each[s] >= least) continue;
    const double all = static_cast<double>(least.count()) * static_cast<double>(ways[s].count());
    const double exact = std::ceil(all / static_cast<double>(slos[m].count()));
    const duration slo{static_cast<duration::rep>(std::min(exact, 9e18))};
    if (slo > wanted) tightest = s;
    wanted = std::max(wanted, slo);
  }
  if (wanted == duration::zero()) return;
  const std::size_t m = a.stages[tightest].model;
  throw error(errc::bad_option, a.name + ": SLO of " + number_text(to_us(a.slo)) +
                                    " us, expected at least " + number_text(to_us(wanted)) +
                                    ", of which " + t.name(m) + " has its fastest latency, " +
                                    number_text(to_us(t.latency(m, 1, t.sizes(m).back()))) + " us");
}

} // namespace gsched::sim
