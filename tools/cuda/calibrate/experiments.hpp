// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calibrate/rig.hpp"
#include "calibrate/samples.hpp"

#include <gsched/cuda/gpu.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace calibrate {

/// An experiment measures a little in each round, so that the rounds of all experiments alternate
/// and a disturbance affects all of them. Times are in microseconds; conclude.cpp reads the samples
/// by name.
///
/// Errors   gsched::error with CUDA's message; too_small if the host is too slow for a measurement.
class experiment {
public:
  virtual ~experiment() = default;
  [[nodiscard]] virtual const char* name() const noexcept = 0;
  virtual void round(samples& into) = 0;
};

/// The host cost of submitting and polling through cuda::device.
[[nodiscard]] std::unique_ptr<experiment> device_costs(const gsched::cuda::gpu& which);
/// The latency from a submission to cuda::device until the host sees its effects.
[[nodiscard]] std::unique_ptr<experiment> latencies(const rig& on);
/// The latency from a launch to the words of its block in the notification ring.
[[nodiscard]] std::unique_ptr<experiment> block_notifications(const rig& on);
/// The gaps between operations: within a graph, between graphs, between segments.
[[nodiscard]] std::unique_ptr<experiment> gaps(rig& on);
[[nodiscard]] std::unique_ptr<experiment> transfers(rig& on);
/// Lanes of cuda::device that are held between kernels, by gates.
[[nodiscard]] std::unique_ptr<experiment> gates(rig& on);
/// Lanes of cuda::device with preemptible kernels.
[[nodiscard]] std::unique_ptr<experiment> preemptible_kernels(const rig& on);
/// Errors   at construction, if the GPU has no green contexts: with CUDA's message.
[[nodiscard]] std::unique_ptr<experiment> green_contexts(const rig& on);
/// Kernels launched directly. Must run after all experiments with graphs.
[[nodiscard]] std::unique_ptr<experiment> direct_launches(rig& on);

/// Limits of many direct launches on many streams, measured in a process of their own.
struct queue_figures {
  std::uint32_t grids = 0;  ///< concurrent kernels, each on a stream of its own
  std::uint32_t chains = 0; ///< concurrent chains of kernels, submitted chain by chain
};
[[nodiscard]] queue_figures count_here(const gsched::cuda::gpu& which);
/// Runs `program --count-queues` with that many connections and reads its output.
[[nodiscard]] queue_figures count_in_child(int gpu, std::uint32_t connections);

} // namespace calibrate
