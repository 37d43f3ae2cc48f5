// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace serve_mix {

/// The command line as words. Words are checked after CLI11 is done, so that all errors read alike.
struct words {
  std::string device = "sim:h200", mix, clients = "8", load = "0.9", rate, arrivals = "poisson",
              requests = "2000", policy = "all", slo = "10", seed = "1", json, trace, plot, queues,
              lanes = "8", quantum = "100", most_quantum = "800", overshoot = "4",
              threshold = "10000", delay = "0", submission = "graph";
  std::vector<std::string> profiles;
  bool quiet = false, no_progress = false;
};

/// Tells CLI11 the options, whose words it puts into `w`, and the text of --help.
void declare(CLI::App& app, words& w);

} // namespace serve_mix
