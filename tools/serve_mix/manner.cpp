// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/manner.hpp"

#include <algorithm>

namespace serve_mix {

using namespace gsched;

manner manner_of(const std::string& policy, const options& from) {
  manner m;
  m.policy = policy;
  m.dispatch.how = from.submission;
  m.dispatch.lanes = from.lanes;
  m.dispatch.spare_lanes = from.spare_lanes;
  m.dispatch.quantum = from.quantum;
  m.dispatch.most_quantum = std::max(from.quantum, from.most_quantum);
  m.dispatch.evict_on_preempt = from.evict;
  m.account.overshoot_fill = from.overshoot;
  if (policy == "direct" || policy == "single") {
    m.policy = "fifo";
    m.scheduled = false;
    m.dispatch.quantum = m.dispatch.most_quantum = run_to_completion;
    m.dispatch.low_mark = m.dispatch.high_mark = run_to_completion;
    m.dispatch.segments_per_job = 1u << 20;
    m.dispatch.use = policy == "direct" ? lane_use::own : lane_use::shared;
    m.dispatch.lanes = policy == "direct" ? 1024 : 1;
    m.dispatch.spare_lanes = 0;
    m.account.overshoot_fill = 1e6; // whatever arrives is submitted
  }
  return m;
}

} // namespace serve_mix
