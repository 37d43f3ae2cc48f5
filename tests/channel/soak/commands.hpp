// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace gsched::soak {

// Each returns 0 if all that it checks holds, and 1 with lines on stderr otherwise.

struct deaths_options {
  std::uint64_t requests = 20000;
  std::uint32_t clients = 16;
  std::uint32_t server_kills = 3;
  std::uint32_t kill_every_ms = 50;
  std::uint64_t seed = 1;
  std::string json;
};
int deaths(const deaths_options& how);

struct fairness_options {
  double seconds = 1;
  double threshold_ms = 1; ///< of deficit_over
  double tolerance = 0.03;
  std::string json;
};
int fairness(const fairness_options& how);

struct hostile_options {
  std::uint64_t messages = 200000;
  std::uint64_t seed = 1;
  double seconds = 0.5;  ///< of each turn
  double most_ratio = 0; ///< of the p99 beside the hostile client to that beside the busy one
  std::uint64_t per_connection = 10000; ///< messages, in the mean
  std::uint64_t packet_every = 64;      ///< messages; 0: none but the hello
  bool idle = false;                    ///< the hostile client gets the CPU time that is left over
  bool reconnects = false;              ///< it connects and leaves, and writes nothing
  double connect_rate = 0;              ///< that the host allows a process; 0: any
  std::string json;
};
int hostile(const hostile_options& how);

} // namespace gsched::soak
