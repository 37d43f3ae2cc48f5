// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/settings.hpp"

#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/occupancy/limits.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gsched_server {

/// The rule of each device, which keeps its models apart from those beside which they would be
/// slowed beyond their limits; nothing if no model has one. `where` names the source, which is
/// predicted, LAW.json or PAIRS.csv; `sms` are those of the devices.
///
/// Errors   bad_option, one line: a model without a profile of its kernels; those of
///          common::predicted_slowdowns and common::paired_slowdowns.
/// Cost     some milliseconds for each pair of models, once for devices of one name.
[[nodiscard]] std::vector<std::shared_ptr<const gsched::corun_rule>>
neighbour_rules(const std::string& where, const std::string& source,
                std::span<const model_plan> models, std::span<const common::device_choice> devices,
                std::span<const gsched::architecture_limits> sms);

} // namespace gsched_server
