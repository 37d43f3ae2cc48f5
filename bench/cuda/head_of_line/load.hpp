// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "experiment.hpp"
#include "head_of_line/way.hpp"

#include <cstddef>
#include <vector>

namespace head_of_line {

/// The results of a server under one load. Loads are in jobs: the arrival rate times the time of a
/// job alone.
struct outcome {
  double offered = 0;
  double achieved = 0;
  double mean_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  std::size_t jobs = 0;
  bool gave_up = false; ///< too many jobs waited: the results are lower bounds
  double submissions_per_job = 0;
};

/// The mean number of concurrent jobs, with `backlog` jobs always in the system.
[[nodiscard]] double measure_capacity(server& s, const job_shape& job, std::size_t backlog,
                                      double seconds);

/// Poisson arrivals, equal for all servers at one load; latency is from arrival until the host
/// observes the end.
[[nodiscard]] outcome measure_load(server& s, const job_shape& job, double offered, double seconds);

/// From low loads until p99 is many times that of jobs alone, then in between.
struct sweep_result {
  std::vector<outcome> points;
  double p99_low_us = 0; ///< of jobs one at a time
  double sustained = 0;  ///< the largest load found whose p99 is at most twice that
};
[[nodiscard]] sweep_result sweep(server& s, const job_shape& job, double seconds, double capacity,
                                 experiment::watchdog& dog);

} // namespace head_of_line
