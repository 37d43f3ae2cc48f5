// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/configuration.hpp"

#include "common/run/policy_options.hpp"

#include <algorithm>

namespace serve_mix {

using namespace gsched;

configuration configuration_of(const std::string& policy, const options& from) {
  configuration c;
  c.policy = policy;
  c.dispatch.how = from.submission;
  c.dispatch.lanes = from.lanes;
  c.dispatch.spare_lanes = from.spare_lanes;
  c.dispatch.quantum = from.quantum;
  c.dispatch.most_quantum = std::max(from.quantum, from.most_quantum);
  c.dispatch.evict_on_preempt = from.evict;
  c.account.overshoot_fill = from.overshoot;
  if (is_unscheduled(policy)) {
    c.policy = fifo::name;
    c.dispatch.spare_lanes = 0;
    if (policy == "direct")
      disable_scheduling(c, lane_use::own, 1024);
    else
      disable_scheduling(c, lane_use::shared, 1);
  }
  return c;
}

} // namespace serve_mix
