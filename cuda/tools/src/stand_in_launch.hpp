// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/preemption.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <string>
#include <tuple>

namespace gsched::cuda {

/// A stand-in's kernel and all of its launch but the time.
struct stand_in_launch {
  const void* function = nullptr;
  dim3 grid{};
  dim3 block{};
  std::uint32_t dynamic_shared_bytes = 0;
  dim3 cluster{1, 1, 1};
  std::uint32_t blocks_per_sm = 0; ///< by the driver's own count

  [[nodiscard]] auto key() const noexcept {
    return std::tuple(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                      dynamic_shared_bytes, cluster.x, cluster.y, cluster.z);
  }
  [[nodiscard]] std::uint64_t blocks() const noexcept {
    return std::uint64_t{grid.x} * grid.y * grid.z;
  }
  [[nodiscard]] std::uint32_t cluster_size() const noexcept {
    return cluster.x * cluster.y * cluster.z;
  }
};

/// The launch that keeps the shape: registers by the unit in which an SM gives them out, static
/// shared memory as dynamic. `wanted` is how many blocks an SM shall hold, or 0: where the GPU
/// would hold more of the stand-in, shared memory is added.
/// Errors   does_not_fit, which begins with `what`, where no SM holds a block.
[[nodiscard]] stand_in_launch fit_stand_in(const launch_shape& shape, std::uint32_t wanted,
                                           const gpu& on, const std::string& what);

/// How long the blocks of one stay, and how they leave earlier.
struct stand_in_stay {
  std::uint64_t cycles = 0;
  preemption may{};
  std::uint64_t* saved = nullptr; ///< a word for each block, where it leaves at checkpoints
};

/// Adds one to a graph, after a node of it or as its first.
[[nodiscard]] cudaGraphNode_t add_stand_in(cudaGraph_t graph,
                                           std::span<const cudaGraphNode_t> after,
                                           const stand_in_launch& launch,
                                           const stand_in_stay& stay);

} // namespace gsched::cuda
