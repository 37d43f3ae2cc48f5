// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/dispatch/options.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>

#include <string>

namespace parts {

/// How a dispatcher is set for one run.
struct manner {
  gsched::dispatch_options dispatch;
  gsched::accountant_options account;
  std::string policy;
  bool scheduled = true; ///< false: every request goes to the hardware at once, as one whole
};

} // namespace parts
