// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/options.hpp"

#include <gsched/core/time.hpp>
#include <gsched/trace/histogram.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace realtime {

/// A client's model alone on the device, one request after the other, each as one graph.
struct client_facts {
  gsched::duration solo{}; ///< mean latency
  double per_s = 0;
};

/// What is measured before the runs.
struct workload_facts {
  std::string device_name; ///< empty for the device that ships with the library
  std::vector<client_facts> clients;
};

/// The four end states add up to submitted, or something was lost.
struct client_result {
  std::uint64_t submitted = 0;
  std::uint64_t finished = 0;
  std::uint64_t rejected = 0;
  std::uint64_t over_limit = 0; ///< of the rejected: dispatch_options::max_jobs were active
  std::uint64_t cancelled = 0;
  std::uint64_t failed = 0;
  std::uint64_t in_window = 0;             ///< finished before the run's end
  gsched::duration parts{};                ///< done by then, of requests that had not finished
  std::vector<gsched::duration> latencies; ///< of all that finished, in that order

  [[nodiscard]] std::uint64_t lost() const noexcept {
    return submitted - finished - rejected - cancelled - failed;
  }
};

struct timed {
  std::uint64_t count = 0;
  gsched::duration p50{};
  gsched::duration p99{};
};

/// One mode's run.
struct run_result {
  mode how{};
  std::vector<client_result> clients; ///< as the workload has them
  gsched::duration window{};          ///< device time in which requests came
  timed preemptions;
  timed restores;
  std::uint64_t starvations = 0;   ///< as preemption_statistics has these two
  gsched::duration longest_wait{}; ///< of best-effort clients
  std::uint64_t preempted_segments = 0;
  std::uint64_t undone_operations = 0;
  std::uint64_t side_segments = 0;
  std::uint64_t reserved_segments = 0;
  std::vector<std::uint32_t> reserved; ///< SMs that the model of each client leaves free at the end
  std::uint64_t padded_programs = 0;   ///< made before the run
  std::uint64_t padded_segments = 0;   ///< as preemption_statistics has these two
  std::uint64_t carried_operations = 0;
  gsched::duration carried{};      ///< the same, of those that have ended
  gsched::duration padded_alone{}; ///< of the real-time work in these
  gsched::duration padded_took{};
  std::optional<std::uint64_t> rerun_blocks; ///< that had ended before; none: not counted
  double wall_s = 0;                         ///< the one field that is not reproducible
};

/// Totals of a run, over all clients.
struct run_summary {
  std::vector<gsched::duration> latencies; ///< of real-time requests
  double normalised_latency = 0;           ///< mean over real-time requests, each by its model's
  std::uint64_t best_effort_finished = 0;
  double best_effort_per_s = 0;
  std::optional<double> work_done; ///< none where real-time work takes all of the time
  double throughput = 0;           ///< each client's over its model's alone, summed
  double real_time_throughput = 0;
  std::uint64_t over_limit = 0;
  std::uint64_t lost = 0;
};
[[nodiscard]] double throughput_of(const client_result& c, const client_facts& f,
                                   gsched::duration window);
[[nodiscard]] run_summary summarise(const options& from, const workload_facts& facts,
                                    const run_result& run);

/// The run of that mode; null if there is none.
[[nodiscard]] const run_result* find(std::span<const run_result> runs, mode m);

} // namespace realtime
