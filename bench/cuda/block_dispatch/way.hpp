// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_dispatch/mix.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace block_dispatch {

enum class account : std::uint8_t {
  driver,      ///< no dispatcher: graphs submitted directly to the driver
  none,        ///< a dispatcher whose number of lanes is the only limit
  aggregate,   ///< by the fill of segments: gsched::aggregate_accountant
  block_level, ///< by reports of blocks: gsched::per_sm_accountant
  each_sm      ///< the same, with the free resources of each SM for the waiting blocks
};

/// How jobs are submitted to the GPU.
struct way {
  std::string name;
  account by = account::driver;
  bool priorities = false;       ///< driver: streams of shorter jobs have higher priority
  bool whole = false;            ///< segments of the library's default length, not single kernels
  double overshoot_fill = 0;     ///< aggregate
  double overshoot_us = 0;       ///< aggregate
  unsigned overshoot_blocks = 0; ///< block_level
  unsigned group_blocks = 0;     ///< block_level, each_sm: as cuda::device_options has it
  bool instrumented = false;     ///< kernels report their blocks
};

[[nodiscard]] std::vector<way> all_ways();

enum class order : std::uint8_t {
  srpt, ///< for latency
  fifo  ///< for throughput: each tenant receives what its backlog demands
};

struct server_options {
  way how;
  mix what;
  order by = order::srpt;
  unsigned lanes = 16; ///< or streams of a tenant
  long long cycles_per_us = 0;
  int gpu = 0;
};

/// Accepts jobs and reports when they have ended.
class server {
public:
  virtual ~server() = default;
  virtual void submit(unsigned tenant, std::uint32_t job) = 0;
  /// Appends the jobs that have ended since the last call.
  virtual void poll(std::vector<std::uint32_t>& ended) = 0;
  /// Throws if a job was lost; nothing is in flight.
  virtual void check_end() const {}
};

[[nodiscard]] std::unique_ptr<server> make_driver_server(const server_options& o);
[[nodiscard]] std::unique_ptr<server> make_gsched_server(const server_options& o);

} // namespace block_dispatch
