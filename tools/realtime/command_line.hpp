// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/command_line.hpp"

#include <string>

namespace CLI {
class App;
}

namespace realtime {

struct words : common::words {
  std::string workload = "disb_a", mode = "all", seconds = "2", requests, seed = "1", lanes = "2",
              real_time_lanes = "1", quantum = "200", most_quantum = "3200", overshoot = "4",
              floor = "0", side = "8,16,32", pad = "needed", pad_places = "8", tolerance = "5",
              leaves = "never", before, threads, reserve = "none", reserve_fixed,
              long_operation = "100", reserve_slow_down = "10", reserve_tail = "50",
              reserve_share = "80";
};

/// Tells CLI11 the options, whose words it puts into `w`, and the text of --help.
void declare(CLI::App& app, words& w);

} // namespace realtime
