// SPDX-License-Identifier: Apache-2.0
#include "realtime/manner.hpp"

#include <algorithm>
#include <cstdint>

namespace realtime {

using namespace gsched;

namespace {

/// Whole graphs, handed to the hardware at once.
void leave_to_hardware(manner& m) {
  m.scheduled = false;
  m.dispatch.quantum = m.dispatch.most_quantum = run_to_completion;
  m.dispatch.low_mark = m.dispatch.high_mark = run_to_completion;
  m.dispatch.segments_per_job = 1u << 20;
  m.account.overshoot_fill = 1e6; // whatever arrives is submitted
}

} // namespace

manner manner_of(mode how, const options& from) {
  const auto real_time =
      static_cast<std::uint32_t>(std::count_if(from.work.clients.begin(), from.work.clients.end(),
                                               [](const client_spec& c) { return c.real_time(); }));
  const auto all = static_cast<std::uint32_t>(from.work.clients.size());
  manner m;
  m.policy = "priority<fifo,fifo>";
  m.dispatch.lanes = from.lanes;
  m.dispatch.quantum = from.quantum;
  m.dispatch.most_quantum = std::max(from.quantum, from.most_quantum);
  m.account.overshoot_fill = from.overshoot;
  preemption_options& p = m.dispatch.preemption;
  switch (how) {
  case mode::seq:
    leave_to_hardware(m);
    m.dispatch.lanes = 1;
    break;
  case mode::streams:
  case mode::streams_priority:
    leave_to_hardware(m);
    m.dispatch.use = lane_use::client;
    m.dispatch.lanes = all;
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
  return m;
}

leaving leaving_of(mode m, const options& from) noexcept {
  if (m != mode::preempt && m != mode::preempt_pad) return leaving::never;
  return from.leaves;
}

} // namespace realtime
