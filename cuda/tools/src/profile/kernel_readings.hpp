// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile/range_counters.hpp"

#include <gsched/job/kernel_counters.hpp>

#include <string>
#include <vector>

namespace gsched::cuda {

/// The hardware counters that become kernel_counters. Those of pipes and waits are optional.
[[nodiscard]] std::vector<counter_name> counters_of_kernels();

/// The counters of a kernel that takes `us` alone, from those of its range and of an empty range,
/// in the order of counters_of_kernels.
///
/// Errors   device_failed, naming `where`: a value that is negative or no number, or a range in
///          which the profiler saw no instruction.
[[nodiscard]] kernel_counters counters_of(const std::vector<double>& range,
                                          const std::vector<double>& empty, double us,
                                          const std::string& where);

} // namespace gsched::cuda
