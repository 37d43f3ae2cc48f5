// SPDX-License-Identifier: Apache-2.0
#include "sim_accuracy/laws.hpp"

#include <gsched/occupancy/calculator.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/sim/graph_law.hpp>

#include <algorithm>

namespace sim_accuracy {

using namespace gsched;

scaled_graph::scaled_graph(const profile& p, bool ignore_scaling) : device(p.sms) {
  const architecture_limits limits = limits_for(9, 0);
  without_points.reserve(p.operations.size());
  operations.reserve(p.operations.size());
  for (const profile_operation& po : p.operations) {
    without_points.push_back(po.work);
    operation& op = without_points.back();
    if (ignore_scaling) op.by_sms.clear();
    std::uint32_t per_sm = op.max_blocks_per_sm;
    if (per_sm == 0 && op.kind == operation_kind::kernel)
      per_sm = max_blocks_per_sm(limits, op.launch);
    per_sm = std::max(per_sm, 1u);
    operations.push_back({&op, per_sm, sim::scaling_table(op, device, per_sm)});
  }
}

sm_count granted(std::uint32_t sms, sm_count device, std::uint32_t unit) {
  const std::uint32_t groups = std::max(device.count() / unit, 1u);
  return sm_count{sms > (groups - 1) * unit ? device.count() : sms};
}

duration replay(const scaled_graph& g, sm_count sms) {
  duration sum{};
  for (const scaled_operation& op : g.operations) sum += op.table.at(sms);
  return sim::graph_law{}.replay(sum, g.operations.size());
}

} // namespace sim_accuracy
