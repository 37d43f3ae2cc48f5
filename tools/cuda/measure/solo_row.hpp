// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "measure/row_file.hpp"

#include <gsched/cuda_tools/replay_times.hpp>
#include <gsched/job/profile.hpp>

#include <cstddef>

namespace measure {

/// The columns of solo_metrics.csv. Older files lack the last solo_metrics_newer of them.
[[nodiscard]] row_file::row solo_metrics_columns();
inline constexpr std::size_t solo_metrics_newer = 2;

/// The row of a graph, from the counters of its kernels. They were counted one at a time, so what a
/// kernel took is divided by the time of an undisturbed replay: percentages are of the peak of the
/// whole GPU during the median, and ipc is warp instructions a cycle and SM.
///
/// Errors   bad_profile, one line: a kernel without counters, or a graph without kernels.
[[nodiscard]] row_file::row solo_metrics_row(const gsched::profile& of,
                                             const gsched::cuda::replay_times& alone);

} // namespace measure
