// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/profile.hpp>

#include <cuda.h>

#include <string>
#include <vector>

namespace gsched::cuda {

/// Options of count_kernels.
struct counting_options {
  std::string cupti_library; ///< path of the library; empty: search the toolkit's usual places
};

/// Reads the hardware counters of each kernel of a captured graph, and writes them into the
/// operations of its profile, which profile_graph made of the same graph on the same GPU. A GPU
/// without some pipe, or a CUPTI without its counter, is no error: the profile has 0 for its use.
/// Returns the names of these counters, the same for each graph.
///
/// Source   the metrics are those of Elvinger et al., SoCC 2025, section 2.2,
///          doi:10.1145/3772052.3772270.
/// Differs  each kernel runs alone, as a graph of its own, in the order of the capture and with the
///          caches as the kernels before it left them. The whole graph runs once for each pass that
///          the counters need, so a graph that changes its own inputs is counted on changed data.
///          What the profiler counts before and after a kernel is subtracted, as an empty range
///          shows it, and elapsed time is the operation's own time in the profile.
/// Units    parts of peak, 0 to 1, as in kernel_counters; `us` is the operation's time.
/// Errors   bad_profile if the profile's operations are not those of the graph; no_device, naming
///          what is missing, if CUPTI or another counter of this GPU is not there, and saying how
///          to permit them if the driver permits them only to administrators; device_failed, naming
///          the operation, for a kernel without counters, or with CUPTI's message.
/// Cost     some 10 to 30 passes of about 50 us for each operation.
/// Threads  one at a time in a process, with no other client of CUPTI's profiler. The GPU should be
///          idle.
std::vector<std::string> count_kernels(CUgraph graph, const counting_options& how, profile& into);

} // namespace gsched::cuda
