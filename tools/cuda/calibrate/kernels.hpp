// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/report.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <span>

namespace calibrate {

/// A kernel of blocks of one warp as a node of a graph.
struct node {
  CUfunction function = nullptr;
  std::array<std::uint64_t, 8> arguments{};       ///< in words
  std::array<std::uint8_t, 4> begins{0, 1, 2, 3}; ///< the word at which each argument begins
  std::uint32_t blocks = 1;
};

/// Does nothing for that many cycles of its SM's clock; 0 is an empty kernel.
[[nodiscard]] node spin(std::uint64_t cycles);
/// As spin, then stores how often it has run, which it counts at `count` in device memory, to
/// `seen` in pinned memory.
[[nodiscard]] node mark(std::uint64_t cycles, std::uint64_t* count, std::uint64_t* seen);
/// Answers each of the values 1 to `rounds` at `ask` with the same value at `answer`, both in
/// pinned memory; gives up after so many cycles.
[[nodiscard]] node answer(const std::uint64_t* ask, std::uint64_t* answer, std::uint64_t rounds,
                          std::uint64_t most_cycles);
/// As spin, but leaves at checkpoints that are that many cycles apart.
[[nodiscard]] node leaving(std::uint64_t cycles, std::uint64_t step);
/// As spin, instrumented.
[[nodiscard]] node reporting(const gsched::cuda::report& to, std::uint64_t cycles);

/// A chain of nodes as a graph, to be destroyed by the caller.
/// Errors   gsched::error with CUDA's words.
[[nodiscard]] CUgraph make_chain(std::span<const node> nodes);

/// The empty kernel as a launch of its own.
[[nodiscard]] cudaError_t launch_empty(cudaStream_t on);

/// How many kernels have started, now and when the first of them ended; in device memory.
struct starts {
  std::uint32_t now = 0;
  std::uint32_t at_first_end = 0;
};
/// One block that runs for that long, and counts in `at`.
[[nodiscard]] cudaError_t launch_counted(cudaStream_t on, starts* at, std::uint64_t ns);

} // namespace calibrate
