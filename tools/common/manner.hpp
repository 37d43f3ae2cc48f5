// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/dispatch/options.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>

#include <cstdint>
#include <string>

namespace common {

/// How a dispatcher is set for one run.
struct manner {
  gsched::dispatch_options dispatch;
  gsched::accountant_options account;
  std::string policy;
  /// Jobs of one program that a device must be able to hold at once.
  std::uint32_t copies = 1;
  bool scheduled = true; ///< false: every request goes to the hardware at once, as one whole
};

} // namespace common
