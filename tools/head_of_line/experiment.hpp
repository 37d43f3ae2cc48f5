// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/sim/preset.hpp>

#include <cstdint>
#include <functional>

namespace head_of_line {

struct experiment {
  std::uint32_t jobs = 256;
  std::uint32_t kernels = 8; ///< of a job, one after another, each of one block
  std::uint32_t threads = 128;
  double kernel_us = 300;
};

enum class order {
  job_by_job, ///< all kernels of a job, then the next job
  interleaved ///< a job's next kernel when the end of its last one was reported
};

/// Jobs that have a kernel running, averaged over the time in which any has. Each job has a stream
/// of its own on a simulated GPU with that many hardware queues. `done` is called with the number
/// of jobs that have ended, as it rises.
[[nodiscard]] double jobs_at_once(gsched::sim::preset device, const experiment& e,
                                  std::uint32_t queues, order how,
                                  const std::function<void(std::uint64_t)>& done);

} // namespace head_of_line
