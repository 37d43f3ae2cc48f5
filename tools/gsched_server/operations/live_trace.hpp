// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/operations/activity.hpp"

#include <gsched/core/time.hpp>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace gsched_server {

/// A device of a trace.
struct traced_device {
  std::string device;
  std::vector<activity_event> events;
  activity::names known;
};

/// Writes events from `since_ns` on for ui.perfetto.dev: a process for each device, with a track of
/// its preemptions, a track for each lane, and one of requests for each tenant. Requests that began
/// before begin at the first event. A segment runs from its submission, or the end of the one
/// before it on its lane, until its end was seen.
void write_trace(std::ostream& out, const std::vector<traced_device>& all, std::int64_t since_ns);

} // namespace gsched_server
