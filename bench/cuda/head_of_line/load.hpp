// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "experiment.hpp"
#include "head_of_line/way.hpp"

#include <cstddef>
#include <vector>

namespace head_of_line {

/// What a server did under one load. Loads are counted in jobs: the arrival rate times what a job
/// takes alone.
struct outcome {
  double offered = 0;
  double achieved = 0;
  double mean_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  std::size_t jobs = 0;
  bool gave_up = false; ///< too many jobs waited: the figures are lower bounds
  double submissions_per_job = 0;
};

/// Jobs that run at once, on average, where there are always `backlog` in the system.
[[nodiscard]] double measure_capacity(server& s, const job_shape& job, std::size_t backlog,
                                      double seconds);

/// Poisson arrivals, the same for each server by load; latency is from arrival until the host has
/// seen the end.
[[nodiscard]] outcome measure_load(server& s, const job_shape& job, double offered, double seconds);

/// From low loads up until p99 is many times that of jobs alone, then between.
struct sweep_result {
  std::vector<outcome> points;
  double p99_low_us = 0; ///< of jobs one at a time
  double sustained = 0;  ///< the largest load found whose p99 is at most twice that
};
[[nodiscard]] sweep_result sweep(server& s, const job_shape& job, double seconds, double capacity,
                                 experiment::watchdog& dog);

} // namespace head_of_line
