// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/workload/arrivals.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace gsched::sim {

/// Submits a workload's requests as they fall due and drives the dispatcher until every one has
/// ended. Open-loop requests never wait for replies: one that falls due while the host is busy is
/// submitted as soon as it is not, and its latency counts from when it was due.
///
/// `submit(request)` hands one to the dispatcher; whoever hears of a job's end tells the source's
/// on_reply; `tick()` is called about once a round, for progress.
///
/// Errors   jobs that wait for what can never come (nothing is in flight, nothing arrives) are
///          cancelled, so it always returns.
/// Cost     nothing beside the dispatcher's steps.
template <class Dispatcher, gsched::device Device, arrival_source Source, class Submit, class Tick>
void serve(Dispatcher& to, Device& on, Source& from, std::uint64_t requests, Submit submit,
           Tick tick) {
  std::optional<request> next;
  for (;;) {
    for (; requests > 0; --requests) {
      if (!next) next = from.next();
      if (!next || next->at > on.now()) break;
      submit(*next);
      next.reset();
    }
    if (to.step()) {
      tick();
      continue;
    }
    const bool more = requests > 0 && next.has_value();
    if (to.idle() && !more) return;
    if (to.nothing_in_flight() && !more)
      to.cancel_all();
    else
      on.wait(std::min(more ? next->at : no_deadline, to.step_by()));
  }
}

} // namespace gsched::sim
