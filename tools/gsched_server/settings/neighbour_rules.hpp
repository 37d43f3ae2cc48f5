// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/settings.hpp"

#include <gsched/dispatch/corun_rule.hpp>

#include <memory>
#include <vector>

namespace gsched_server {

/// The rule of each device, which keeps its models apart from those beside which they would be
/// slowed beyond their limits; nothing if no model has one.
///
/// Errors   bad_option, one line: a model without a profile of its kernels; those of
///          common::predicted_slowdowns and common::paired_slowdowns.
/// Cost     a prediction takes up to 0.1 s for each pair of models, once for devices of one name.
[[nodiscard]] std::vector<std::shared_ptr<const gsched::corun_rule>>
neighbour_rules(const settings& s);

} // namespace gsched_server
