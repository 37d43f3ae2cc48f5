// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/shared_sm_slowdowns.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace common {

/// The slow-downs of the demands' models on shared SMs, from the profiles that --profiles names.
/// The GPU is that of the table.
/// Errors   as profile_catalogue and load_model; unknown_name for a model without a profile.
[[nodiscard]] std::shared_ptr<const gsched::shared_sm_slowdowns>
load_shared_sms(const std::vector<std::string>& profiles, const std::string& table_name,
                const gsched::latency_table& table, const gsched::solo_table& solo,
                std::span<const gsched::model_demand> demands,
                const gsched::interference_coefficients& law);

} // namespace common
