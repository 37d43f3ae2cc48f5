// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "case.hpp"
#include "experiment.hpp"
#include "work_graph/built.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace preemption_torture {

/// Something did not end in time. The process cannot continue: the GPU may never be idle again.
class hang : public std::runtime_error {
public:
  hang(const std::string& what, bool by_cuda_alone)
      : std::runtime_error(what), by_cuda_alone_(by_cuda_alone) {}
  /// The original graph was launched, without the library.
  [[nodiscard]] bool by_cuda_alone() const noexcept { return by_cuda_alone_; }

private:
  bool by_cuda_alone_;
};

struct counts {
  std::uint64_t rounds = 0;
  std::uint64_t preemptions = 0; ///< yields of lanes with work in flight
  std::uint64_t stopped = 0;     ///< of these, with a segment that was stopped before its end
  std::uint64_t runs = 0;        ///< of best-effort graphs
  std::uint64_t expired_leases = 0;
  std::uint64_t opened = 0; ///< lanes that were released for urgent work that needs every SM
};

/// The memory after a run, and the expected memory.
struct evidence {
  struct lane {
    std::uint64_t runs = 0;
    work_graph::built_graph::contents found;
  };
  work_graph::graph best_effort;
  work_graph::graph urgent;
  std::vector<lane> best_effort_lanes;
  std::vector<lane> urgent_lanes;
};
/// The first difference to the expected memory, in a line; empty if there is none. On any thread.
[[nodiscard]] std::string verify(evidence e);

struct outcome {
  counts seen;
  double alone_us = 0;             ///< the urgent graph, median of the runs before all others
  std::vector<double> standing_us; ///< submitted while all best-effort lanes were stopped
  std::vector<double> beside_us;   ///< while some were not
  std::string skipped;    ///< CUDA itself does not accept one of the graphs: the case shows nothing
  std::string refused;    ///< the library refuses a graph that CUDA runs
  std::string difference; ///< found at once: an event that violates the device's contract
  evidence left;
};

/// Runs a case to its end, after that many runs of each of its graphs by CUDA alone.
///
/// Errors   hang; gsched::error if CUDA fails outside of the tested calls.
/// Threads  one; it polls all the time.
[[nodiscard]] outcome run_case(const torture_case& c, const work_graph::gpu_facts& gpu,
                               work_graph::memory_pool& memory, experiment::watchdog& dog,
                               double hang_seconds, unsigned alone_runs);

} // namespace preemption_torture
