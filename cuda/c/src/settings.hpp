// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/gsched_c.h>

#include <gsched/core/time.hpp>
#include <gsched/server/options.hpp>

#include <cstdint>
#include <string>

namespace gsched::abi {

/// gsched_server_options, checked, as the library takes them.
struct settings : server_options {
  int gpu = 0;
  std::string policy; ///< one of selectable_policies
  duration threshold{};
  duration slice{}; ///< of round_robin
  duration watchdog{};
  bool time_driver = false;
  duration lease{};    ///< how long a stopped lane stands without a sign of life of the server
  duration grain{};    ///< of the pieces that programs are built in ...
  unsigned levels = 1; ///< ... and of 2, 4 ... of them: see cuda::device_options
};

/// Throws refusal or gsched::error, one line each.
[[nodiscard]] settings settings_of(const gsched_server_options& o);

[[nodiscard]] gsched_server_options default_options() noexcept;

/// As gsched_policy_names.
[[nodiscard]] const std::string& policy_names();

} // namespace gsched::abi
