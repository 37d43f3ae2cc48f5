// SPDX-License-Identifier: Apache-2.0
#include "realtime/configuration.hpp"

#include <algorithm>
#include <cstdint>

namespace realtime {

using namespace gsched;

configuration configuration_of(mode how, const options& from) {
  const auto real_time = static_cast<std::uint32_t>(
      std::count_if(from.work.clients.begin(), from.work.clients.end(),
                    [](const client_spec& one) { return one.real_time(); }));
  const auto all = static_cast<std::uint32_t>(from.work.clients.size());
  configuration c;
  c.policy = "priority<fifo,fifo>";
  c.dispatch.lanes = from.lanes;
  c.dispatch.quantum = from.quantum;
  c.dispatch.most_quantum = std::max(from.quantum, from.most_quantum);
  c.account.overshoot_fill = from.overshoot;
  preemption_options& p = c.dispatch.preemption;
  switch (how) {
  case mode::seq: disable_scheduling(c, lane_use::shared, 1); break;
  case mode::streams:
  case mode::streams_priority:
    disable_scheduling(c, lane_use::client, all);
    if (how == mode::streams_priority) {
      p.real_time_lanes = real_time;
      p.yields = p.adaptive = false;
    }
    break;
  case mode::rt_only:
  case mode::preempt:
  case mode::preempt_pad:
    p.real_time_lanes = from.real_time_lanes;
    p.floor = from.floor;
    p.tolerance = from.tolerance;
    for (const sm_count sms : from.reserve) p.reserve.push_back(sms);
    p.reserve_learns = !from.reserve_fixed;
    p.one_long = from.reserve_fixed;
    p.long_operation = from.long_operation;
    p.reserve_slow_down = from.reserve_slow_down;
    p.reserve_tail = from.reserve_tail;
    p.reserve_share = from.reserve_share;
    if (how == mode::preempt_pad) {
      for (const sm_count sms : from.side) p.side.push_back(sms);
      p.pads = from.pad.has_value();
    }
    break;
  }
  return c;
}

preemptibility leaving_of(mode m, const options& from) noexcept {
  if (m != mode::preempt && m != mode::preempt_pad) return preemptibility::never;
  return from.leaves;
}

} // namespace realtime
