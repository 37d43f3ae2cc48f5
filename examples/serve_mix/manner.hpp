// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"

#include <gsched/dispatch/options.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>

#include <string>

namespace serve_mix {

/// How the dispatcher is set for a policy, and for the two ways of not scheduling at all.
struct manner {
  gsched::dispatch_options dispatch;
  gsched::accountant_options account;
  std::string policy;
  bool scheduled = true; ///< false for direct and single
};

[[nodiscard]] manner manner_of(const std::string& policy, const options& from);

} // namespace serve_mix
