// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_dispatch/way.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace block_dispatch {

/// Latencies in microseconds, from arrival until the host observes the end, by tenant.
struct latencies {
  std::array<std::vector<double>, 3> of;
  bool gave_up = false; ///< too many jobs waited: unfinished jobs count with their time so far
};

/// Poisson arrivals of `rates` jobs a second for that long; equal for all servers with the same
/// seed.
[[nodiscard]] latencies measure_latency(server& s, const std::array<double, 3>& rates,
                                        double seconds, std::uint64_t seed);

/// Jobs a second, by tenant, with `backlog` jobs of each tenant always in the system.
[[nodiscard]] std::array<double, 3>
measure_throughput(server& s, const std::array<unsigned, 3>& backlog, double seconds);

} // namespace block_dispatch
