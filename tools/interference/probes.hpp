// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interference/pairs.hpp"

#include <gsched/core/quantity.hpp>

#include <filesystem>

namespace interference {

/// Reads the file probes.csv of a measurement: graphs and probes, each beside an endless probe that
/// was there first. All probes need profiles with counters. Rows of graphs that were held up say
/// nothing, and are skipped.
/// Errors   gsched::error with one line: those of csv_table, and those of workloads.
void read_probes(group_set& into, workloads& from, const std::filesystem::path& file,
                 gsched::sm_count device);

} // namespace interference
