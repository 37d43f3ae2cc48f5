// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/latency_table.hpp>
#include <gsched/sim/app.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace serve_partitions {

/// Reads an app: {"gsched_app": 1, "name", "stages": [{"name", "model", "requests", "after": [name
/// of an earlier stage, ...]}, ...]}. Its SLO is the sum of its models' along the slowest way
/// through.
///
/// Errors   one line each: bad_profile with file and JSON pointer; unknown_name for a model that
/// the
///          table has not; those of sim::check.
[[nodiscard]] gsched::sim::app parse_app(std::string_view text, std::string name,
                                         const gsched::latency_table& t,
                                         std::span<const gsched::duration> slos);

/// What each stage may take, so that the app is in time whichever way through is slowest: its
/// model's SLO, times how much longer the app's is than the slowest way through this stage.
[[nodiscard]] std::vector<gsched::duration> stage_slos(const gsched::sim::app& a,
                                                       std::span<const gsched::duration> slos);

/// A file, or one that ships, by its name. Errors   also io.
[[nodiscard]] gsched::sim::app read_app(const std::string& file_or_name,
                                        const gsched::latency_table& t,
                                        std::span<const gsched::duration> slos);

} // namespace serve_partitions
