// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/operations/metrics.hpp"

#include <gsched/core/time.hpp>
#include <gsched/server/statistics.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gsched_server {

/// What a device of the server has counted, and has to do now.
struct device_figures {
  std::uint32_t number = 0;
  std::string name; ///< as --device has it
  gsched::server_load now;
  gsched::duration queued_alone{}; ///< of requests that are queued or run, as placement counts it
  std::optional<gsched::server_statistics> counted; ///< none while its server hangs
  std::optional<std::uint64_t> channel_clients;     ///< none where the channel does not listen
};

void write(metrics_text& out, const std::vector<device_figures>& all);
/// Processor time, memory and files of this process, by the names that other programs have for
/// them.
void write_process(metrics_text& out);

} // namespace gsched_server
