// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_facts.hpp"

#include <gsched/core/time.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace plan {

namespace {

using gsched::contention_interference;
using gsched::gpulet;
using gsched::partition_plan;

/// How long each portion's batch takes, by partition of the plan.
using batch_times = std::vector<std::vector<gsched::duration>>;

batch_times times_of(const partition_plan& p, const question& q,
                     const std::optional<contention_interference>& beside) {
  const std::vector<std::vector<gpulet>> on = by_gpu(p);
  std::vector<std::size_t> next(on.size());
  batch_times times;
  for (const gpulet& g : p.gpulets) {
    const std::vector<gpulet>& here = on[g.gpu];
    const std::size_t i = next[g.gpu]++;
    times.emplace_back();
    for (const gsched::portion& s : g.portions)
      times.back().push_back(planned_latency(q.table, s.model, s.batch, g.sms,
                                             beside ? (*beside)(here, i, s.model) : 1));
  }
  return times;
}

void lengthen_cycles(partition_plan& p, const batch_times& times) {
  for (std::size_t i = 0; i < p.gpulets.size(); ++i) {
    gsched::duration busy{};
    for (const gsched::duration t : times[i]) busy += t;
    p.gpulets[i].cycle = std::max(p.gpulets[i].cycle, busy);
  }
}

} // namespace

bool shares_sms(const partition_plan& p) {
  return std::any_of(p.gpulets.begin(), p.gpulets.end(),
                     [](const gpulet& g) { return g.region != 0; });
}

partition_plan with_longer_cycles(const partition_plan& p, const question& q,
                                  const contention_interference& beside) {
  partition_plan longer = p;
  lengthen_cycles(longer, times_of(p, q, beside));
  return longer;
}

double worst_of(const partition_plan& p, const question& q,
                const std::optional<contention_interference>& beside) {
  const batch_times times = times_of(p, q, beside);
  partition_plan longer = p;
  lengthen_cycles(longer, times);
  double worst = 0;
  for (std::size_t i = 0; i < p.gpulets.size(); ++i)
    for (std::size_t s = 0; s < times[i].size(); ++s)
      for (const gsched::model_demand& d : q.demands)
        if (d.model == p.gpulets[i].portions[s].model)
          worst = std::max(worst, gsched::to_us(longer.gpulets[i].cycle + times[i][s]) /
                                      gsched::to_us(d.slo));
  return worst;
}

} // namespace plan
