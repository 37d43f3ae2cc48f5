// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <string>

namespace gsched::cuda {

/// A set or a copy that a kernel does.
///
/// A captured set or copy belongs to the context of the whole GPU. In a graph on other SMs it waits
/// for graphs that have such nodes too (docs/research/memory_nodes.md). The driver runs small sets,
/// and copies from and to the host, outside of the SMs: in a graph that is held, each such node and
/// the nodes behind it occupy a hardware queue, and if all queues are occupied, no other work
/// reaches the GPU (docs/research/held_graphs.md). Kernels occupy none.
struct memory_work {
  std::uint64_t to = 0;
  std::uint64_t to_pitch = 0;
  std::uint64_t to_slice = 0;
  std::uint64_t from = 0; ///< 0: a set
  std::uint64_t from_pitch = 0;
  std::uint64_t from_slice = 0;
  std::uint64_t width = 0; ///< bytes of a row
  std::uint64_t height = 1;
  std::uint64_t depth = 1;
  std::uint32_t pattern = 0; ///< of a set: its value, repeated to four bytes
};

[[nodiscard]] memory_work work_of(const CUDA_MEMSET_NODE_PARAMS& set) noexcept;
/// Empty if a kernel on `gpu` cannot reach both ends: arrays, host memory that is not pinned,
/// memory of another GPU.
[[nodiscard]] std::optional<memory_work> work_of(const CUDA_MEMCPY3D& copy, int gpu) noexcept;

/// Adds the kernel to a graph, without edges. `place`: as for add_kernel_node.
[[nodiscard]] CUgraphNode add_memory_kernel(CUgraph graph, const memory_work& work, CUcontext place,
                                            const std::string& what);

} // namespace gsched::cuda
