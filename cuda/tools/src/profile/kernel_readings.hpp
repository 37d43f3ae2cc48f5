// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile/range_counters.hpp"

#include <gsched/job/kernel_counters.hpp>

#include <span>
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

/// Of each counter of a kernel that was counted several times: the median, and the largest less the
/// smallest.
struct counted_rounds {
  kernel_counters median{};
  kernel_counters spread{};
  double widest = 0;          ///< spread of a counter that is a part of a peak or of a time
  const char* widest_of = ""; ///< the counter's name
};
/// `rounds` are from counters_of; one at least.
[[nodiscard]] counted_rounds over_rounds(std::span<const kernel_counters> rounds);

} // namespace gsched::cuda
