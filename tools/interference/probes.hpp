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

/// Reads the file kernels.csv of a measurement: kernels of graphs, each by itself, beside an
/// endless probe that was there first. A kernel takes what its profile says, and so much longer
/// beside the probe as it took longer by the file. Kernels of less than 10 us are left out, and
/// those that the probe held up. A probe with other blocks than any profile takes in proportion to
/// them, one with other threads takes their room.
/// Errors   gsched::error with one line: those of csv_table and of workloads, and for a graph
///          without a profile, or with fewer operations than the file says.
void read_kernels(group_set& into, workloads& from, const std::filesystem::path& file,
                  gsched::sm_count device);

} // namespace interference
