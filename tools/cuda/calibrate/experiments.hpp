// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calibrate/rig.hpp"
#include "calibrate/samples.hpp"

#include <gsched/cuda/gpu.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace calibrate {

/// Measures some things a little in each round, so that rounds of all experiments can alternate and
/// a disturbance hits all of them alike. Times in microseconds; names as report.cpp reads them.
///
/// Errors   gsched::error with CUDA's words; too_small where the host is too slow to measure that.
class experiment {
public:
  virtual ~experiment() = default;
  [[nodiscard]] virtual const char* name() const noexcept = 0;
  virtual void round(samples& into) = 0;
};

/// Submitting and polling through cuda::device.
[[nodiscard]] std::unique_ptr<experiment> device_costs(const gsched::cuda::gpu& which);
/// From a submission to cuda::device to what the host sees of it.
[[nodiscard]] std::unique_ptr<experiment> latencies(const rig& on);
/// From a launch to the words of its block in the notification ring.
[[nodiscard]] std::unique_ptr<experiment> block_notices(const rig& on);
/// From one operation to the next: within a graph, between graphs, between segments.
[[nodiscard]] std::unique_ptr<experiment> gaps(rig& on);
[[nodiscard]] std::unique_ptr<experiment> transfers(rig& on);
/// Lanes of cuda::device that make way between kernels, by gates.
[[nodiscard]] std::unique_ptr<experiment> gates(rig& on);
/// Lanes of cuda::device whose kernels leave.
[[nodiscard]] std::unique_ptr<experiment> leaving_kernels(const rig& on);
/// Errors   at once, where the GPU has no green contexts: with its own words.
[[nodiscard]] std::unique_ptr<experiment> green_contexts(const rig& on);
/// Kernels launched one by one. To come after all that uses graphs.
[[nodiscard]] std::unique_ptr<experiment> direct_launches(rig& on);

/// What many direct launches on many streams run into, in a process of their own.
struct queue_figures {
  std::uint32_t grids = 0;  ///< kernels at once, each on a stream of its own
  std::uint32_t chains = 0; ///< chains of kernels at once, submitted chain by chain
};
[[nodiscard]] queue_figures count_here(const gsched::cuda::gpu& which);
/// Runs `program --count-queues` with that many connections and reads its answer.
[[nodiscard]] queue_figures count_in_child(int gpu, std::uint32_t connections);

} // namespace calibrate
