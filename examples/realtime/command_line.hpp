// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace realtime {

/// The command line as words. Words are checked after CLI11 is done, so that all errors read alike.
struct words {
  std::string workload = "disb_a", mode = "all", device = "sim:h200", seconds = "2", requests,
              seed = "1", lanes = "2", real_time_lanes = "1", quantum = "200",
              most_quantum = "3200", overshoot = "4", floor = "0", side = "8,16,32",
              tolerance = "5", leaves, queues, json, trace, plot;
  std::vector<std::string> profiles;
  bool quiet = false, no_progress = false;
};

/// Tells CLI11 the options, whose words it puts into `w`, and the text of --help.
void declare(CLI::App& app, words& w);

} // namespace realtime
