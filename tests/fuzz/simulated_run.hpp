// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "readers.hpp"

#include <gsched/job/profile.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/sim/device.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace gsched::fuzz {

/// Runs a profile as one graph on a simulated GPU, which either refuses it in one line or reports
/// its end. What would take long is left out: many operations, many blocks, a large GPU.
inline void run_simulated(const sim::preset& on, const profile& p) {
  constexpr std::size_t most_operations = 64;
  constexpr std::uint64_t most_blocks = 4096;
  if (p.operations.size() > most_operations || on.sms.count() > 512) return;
  for (const profile_operation& o : p.operations)
    if (o.work.kind == operation_kind::kernel && o.work.launch.blocks() > most_blocks) return;
  try {
    check_fits(p, [&](const launch_shape& l) { return max_blocks_per_sm(on.sm, l); });
    sim::device gpu(on);
    program graph = to_program(p);
    gpu.load(graph);
    segment s;
    s.id = segment_id{1};
    s.lane = gpu.open_lane({});
    s.program = graph.id();
    s.operations = graph.range(0, graph.size());
    if (gpu.submit(s)) return;
    std::array<device_event, 4> events;
    std::size_t ended = 0;
    for (int waits = 0; ended == 0; ++waits) {
      require(waits < 100000); // the end of a segment comes
      ended = gpu.poll(events);
      if (ended == 0) gpu.wait(no_deadline);
    }
    require(ended == 1 && events[0].segment == s.id && gpu.now() >= time_point{});
  } catch (const error& e) {
    require_one_line(e, "");
  }
}

} // namespace gsched::fuzz
