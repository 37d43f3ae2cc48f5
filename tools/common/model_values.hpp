// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/values.hpp"

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/linear_law.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/latency_table.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace common {

/// MODEL=NUMBER,... of models in the table. Errors   as in values.hpp.
[[nodiscard]] std::map<std::size_t, double> to_model_numbers(std::string_view option,
                                                             const std::string& list,
                                                             const gsched::latency_table& t,
                                                             const number_range& range);

/// SLOs by model of the table: --slo-factor times what the largest batch, at most 32, takes on all
/// SMs.
[[nodiscard]] std::vector<gsched::duration>
to_slos(const std::string& slo_factor, const gsched::latency_table& t, gsched::sm_count all);

/// Refuses models that were measured on more SMs than a GPU has.
void check_sizes(std::span<const gsched::demand> demands, const gsched::latency_table& t,
                 gsched::sm_count all);

/// A GPU of --sms in groups of --group.
[[nodiscard]] gsched::gpu_shape to_shape(const std::string& sms, const std::string& group);

/// A file's law of partitions with SMs of their own, or one that ships by its name; none for
/// "none".
[[nodiscard]] std::optional<gsched::linear_law> to_law(std::string_view option,
                                                       const std::string& word);

} // namespace common
