// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/requests/tensor.hpp"
#include "gsched_server/settings/settings.hpp"
#include "gsched_server/settings/tls_files.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gsched_server {

/// A model as the configuration has it.
struct configured_model {
  std::string profile; ///< the name of one; empty: the model's own, or an adaptor's unknown kernels
  std::uint32_t instances = 8;
  std::string adaptor;                                     ///< a library that runs it; empty: none
  std::string parameters;                                  ///< for the adaptor
  std::optional<std::vector<tensor_spec>> inputs, outputs; ///< unset: by the profile
  std::vector<std::uint32_t> devices;                      ///< that hold it; none: all
  std::optional<double> slow_down_limit;                   ///< unset: that of all models
};

/// A configuration file. What it does not have is unset, or at its default.
struct configuration {
  std::optional<std::string> policy, plan, grpc, http, socket, agent, log;
  std::vector<std::string> devices; ///< none: as the option
  tls_files tls;                    ///< what is not there is empty
  std::vector<std::string> profiles;
  std::uint32_t real_time_lanes = 1;
  double spin_us = 50;
  std::optional<double> slow_down_limit; ///< of each model; unset: none
  std::optional<std::string> slow_downs; ///< where they come from
  std::uint32_t requests = 1024;
  std::uint64_t request_bytes = std::uint64_t{64} << 20;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;
  std::uint32_t http_threads = 32;
  std::uint32_t trace_events = 1u << 17;
  double drain_s = 30;
  double notice_s = 0;
  std::map<std::string, tenant_limits> tenants;
  std::optional<std::map<std::string, configured_model>> models; ///< unset: every profile
};

/// Errors   gsched::error (io, bad_profile) with one line: file, JSON pointer, what is wrong, what
///          was expected. A key that is not known is an error.
[[nodiscard]] configuration read_configuration(const std::filesystem::path& file);

} // namespace gsched_server
