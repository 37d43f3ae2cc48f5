// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/profile.hpp>

#include <cuda.h>

#include <string>
#include <vector>

namespace gsched::cuda {

/// Options of count_kernels.
struct counting_options {
  int rounds = 3;            ///< in which each kernel is counted: 1 to 99
  std::string cupti_library; ///< path of the library; empty: search the toolkit's usual places
};

/// What count_kernels says beside the profile.
struct counting_report {
  std::vector<std::string> missing; ///< counters that this GPU or CUPTI lacks: the profile has 0
  double widest = 0;                ///< spread of a counter over the rounds, as a part of its peak
  std::string widest_of;            ///< its operation and name; empty if no spread is above 0
};

/// Reads the hardware counters of each kernel of a captured graph, and writes their medians and
/// spreads into the operations of its profile, which profile_graph made of the same graph on the
/// same GPU. A GPU without some pipe, or a CUPTI without its counter, is no error.
///
/// Source   the metrics are those of Elvinger et al., SoCC 2025, section 2.2,
///          doi:10.1145/3772052.3772270.
/// Differs  each kernel runs alone, as a graph of its own, in the order of the capture and with the
///          caches as the kernels before it left them. The whole graph runs once for each round of
///          each pass that the counters need, so a graph that changes its own inputs is counted on
///          changed data. A counter of a short kernel can be far off once; the median is not.
///          What the profiler counts before and after a kernel is subtracted, as an empty range
///          shows it, and elapsed time is the operation's own time in the profile.
/// Units    parts of peak, 0 to 1, as in kernel_counters; `us` is the operation's time.
/// Errors   bad_option if the rounds are out of range; bad_profile if the profile's operations are
///          not those of the graph; no_device, naming what is missing, if CUPTI or another counter
///          of this GPU is not there, and saying how to permit them if the driver permits them only
///          to administrators; device_failed, naming the operation, for a kernel without counters,
///          or with CUPTI's message.
/// Cost     some 10 to 30 passes of about 50 us for each operation and round.
/// Threads  one at a time in a process, with no other client of CUPTI's profiler. The GPU should be
///          idle.
counting_report count_kernels(CUgraph graph, const counting_options& how, profile& into);

} // namespace gsched::cuda
