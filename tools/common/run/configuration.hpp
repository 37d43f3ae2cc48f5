// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/dispatch/options.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>

#include <cstdint>
#include <string>

namespace common {

/// The settings of a dispatcher and its device for one run.
struct configuration {
  gsched::dispatch_options dispatch;
  gsched::accountant_options account;
  std::string policy;
  /// Jobs of one program that the device must be able to hold at once.
  std::uint32_t copies = 1;
  bool scheduled = true; ///< false: every request goes to the hardware at once, as one whole
};

/// Every request is submitted as it arrives, as one segment.
inline void disable_scheduling(configuration& c, gsched::lane_use use, std::uint32_t lanes) {
  c.scheduled = false;
  gsched::hold_nothing_back(c.dispatch, use, lanes);
  c.account.overshoot_fill = 1e6; // no limit on the blocks in flight
}

} // namespace common
