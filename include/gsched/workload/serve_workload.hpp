// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/workload/arrival.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace gsched {

/// Submits up to `requests` requests of a source at their arrival times and steps the dispatcher
/// until every job has ended. Open-loop requests never wait for replies: a request that arrives
/// while the host is busy is submitted as soon as the host is free, and its latency counts from its
/// arrival.
///
/// `submit(arrival)` submits one request. The dispatcher's listener calls the source's on_reply at
/// each job's end. `tick()` runs after each step of the dispatcher that did work, for progress
/// reports.
///
/// Errors   jobs that can never run (nothing in flight, no arrivals left) are cancelled, so the
///          function always returns.
/// Cost     O(1) a step beside the dispatcher's own.
/// Threads  the dispatcher's owner.
template <class Dispatcher, gsched::device Device, arrival_source Source, class Submit, class Tick>
void serve_workload(Dispatcher& dispatch, Device& device, Source& source, std::uint64_t requests,
                    Submit submit, Tick tick) {
  std::optional<arrival> next;
  for (;;) {
    for (; requests > 0; --requests) {
      if (!next) next = source.next();
      if (!next || next->at > device.now()) break;
      submit(*next);
      next.reset();
    }
    if (dispatch.step()) {
      tick();
      continue;
    }
    const bool more = requests > 0 && next.has_value();
    if (dispatch.idle() && !more) return;
    if (dispatch.nothing_in_flight() && !more)
      dispatch.cancel_all();
    else
      device.wait(std::min(more ? next->at : no_deadline, dispatch.step_by()));
  }
}

} // namespace gsched
