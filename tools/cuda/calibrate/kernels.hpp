// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/notify/report.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <span>

namespace calibrate {

/// A kernel with blocks of one warp, as a node of a graph.
struct node {
  CUfunction function = nullptr;
  std::array<std::uint64_t, 8> arguments{};       ///< in words
  std::array<std::uint8_t, 4> begins{0, 1, 2, 3}; ///< first word of each argument
  std::uint32_t blocks = 1;
};

/// Spins for that many cycles of its SM's clock; 0: an empty kernel.
[[nodiscard]] node spin(std::uint64_t cycles);
/// As spin, then increments `count` in device memory and stores it to `seen` in pinned memory.
[[nodiscard]] node mark(std::uint64_t cycles, std::uint64_t* count, std::uint64_t* seen);
/// Echoes each of the values 1 to `rounds` from `ask` to `answer`, both in pinned memory. Stops
/// after `most_cycles` cycles.
[[nodiscard]] node answer(const std::uint64_t* ask, std::uint64_t* answer, std::uint64_t rounds,
                          std::uint64_t most_cycles);
/// As spin, with preemption checkpoints every `step` cycles.
[[nodiscard]] node preemptible(std::uint64_t cycles, std::uint64_t step);
/// As spin, instrumented.
[[nodiscard]] node reporting(const gsched::cuda::report& to, std::uint64_t cycles);

/// A graph of a chain of nodes, which the caller destroys.
/// Errors   gsched::error with CUDA's message.
[[nodiscard]] CUgraph make_chain(std::span<const node> nodes);

/// Launches the empty kernel directly.
[[nodiscard]] cudaError_t launch_empty(cudaStream_t on);

/// Number of kernels that have started: now, and when the first of them ended. In device memory.
struct starts {
  std::uint32_t now = 0;
  std::uint32_t at_first_end = 0;
};
/// Launches one block that runs for `ns` nanoseconds and counts in `at`.
[[nodiscard]] cudaError_t launch_counted(cudaStream_t on, starts* at, std::uint64_t ns);

} // namespace calibrate
