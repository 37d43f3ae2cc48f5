// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/command_line.hpp"

#include <string>

namespace CLI {
class App;
}

namespace serve_mix {

struct words : common::words {
  std::string mix, clients = "8", load = "0.9", rate, arrivals = "poisson", requests = "2000",
                   policy = "all", slo = "10", seed = "1", lanes = "8", spare_lanes,
                   quantum = "100", most_quantum = "800", overshoot = "4", threshold = "10000",
                   slice = "100", delay = "0", submission = "graph", weights = "1", evict = "no",
                   threads;
};

/// Tells CLI11 the options, whose words it puts into `w`, and the text of --help.
void declare(CLI::App& app, words& w);

} // namespace serve_mix
