// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/gsched_c.h>

#include <gsched/core/time.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/occupancy/accountant.hpp>

#include <cstdint>
#include <string>

namespace gsched::abi {

/// gsched_server_options, checked, as the library takes them.
struct settings {
  int gpu = 0;
  std::string policy; ///< one of selectable_policies
  dispatch_options dispatch;
  accountant_options account;
  duration threshold{};
  duration slice{}; ///< of round_robin
  duration decision_delay{};
  duration slo{}; ///< zero: none
  duration spin{};
  duration watchdog{};
  bool time_driver = false;
  duration lease{};    ///< how long a stopped lane stands without a sign of life of the server
  duration grain{};    ///< of the pieces that programs are built in ...
  unsigned levels = 1; ///< ... and of 2, 4 ... of them: see cuda::device_options

  /// Time in which the device's watchdog has found what hangs: what waits for the device waits at
  /// least as long.
  [[nodiscard]] duration longest_hang() const noexcept {
    return 2 * watchdog + std::chrono::seconds{3};
  }
};

/// Throws refusal or gsched::error, one line each.
[[nodiscard]] settings settings_of(const gsched_server_options& o);

[[nodiscard]] gsched_server_options default_options() noexcept;

/// As gsched_policy_names.
[[nodiscard]] const std::string& policy_names();

} // namespace gsched::abi
