// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/preempt/preemption.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <string>
#include <tuple>

namespace gsched::cuda {

/// The launch of a stand-in, without its time.
struct stand_in_launch {
  const void* function = nullptr;
  dim3 grid{};
  dim3 block{};
  std::uint32_t dynamic_shared_bytes = 0;
  dim3 cluster{1, 1, 1};
  std::uint32_t blocks_per_sm = 0; ///< by the driver's occupancy calculation

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

/// Finds the stand-in kernel and launch for a shape: registers rounded to the allocation unit,
/// static shared memory as dynamic. `wanted`: blocks that an SM shall hold, or 0; if the GPU would
/// hold more, shared memory is added.
/// Errors   does_not_fit if no SM can hold a block; the line begins with `what`.
[[nodiscard]] stand_in_launch fit_stand_in(const launch_shape& shape, std::uint32_t wanted,
                                           const gpu& on, const std::string& what);

/// The time of a stand-in's blocks, and how they can be preempted.
struct stand_in_stay {
  std::uint64_t cycles = 0;
  preemption preempt{};
  std::uint64_t* saved = nullptr; ///< one word for each block, for preemption at checkpoints
};

/// Adds a stand-in to a graph, depending on the nodes in `after`.
[[nodiscard]] cudaGraphNode_t add_stand_in(cudaGraph_t graph,
                                           std::span<const cudaGraphNode_t> after,
                                           const stand_in_launch& launch,
                                           const stand_in_stay& stay);

} // namespace gsched::cuda
