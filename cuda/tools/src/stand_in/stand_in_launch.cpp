// SPDX-License-Identifier: Apache-2.0
#include "stand_in/stand_in_launch.hpp"

#include "stand_in/stand_in_kernels.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>

namespace gsched::cuda {

namespace {

dim3 dim_of(const extent& e) noexcept { return dim3(e.x, e.y, e.z); }

/// The resources of the compiled kernel: registers rounded to the allocation unit, static memory.
struct facts {
  std::uint32_t registers = 0;
  std::uint32_t static_shared = 0;
};

facts facts_of(const stand_in_kernel& k) {
  cudaFuncAttributes a{};
  check(cudaFuncGetAttributes(&a, k.function), "stand-in kernel");
  return {static_cast<std::uint32_t>(a.numRegs + 7) / 8 * 8,
          static_cast<std::uint32_t>(a.sharedSizeBytes)};
}

std::uint32_t blocks_held(const stand_in_launch& l) {
  int held = 0;
  const auto threads = static_cast<int>(l.block.x * l.block.y * l.block.z);
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&held, l.function, threads,
                                                      l.dynamic_shared_bytes),
        "stand-in occupancy");
  return static_cast<std::uint32_t>(std::max(held, 0));
}

/// A profile has the number of blocks of a cluster but not its shape: extends it along x as far as
/// the grid allows, then y, then z. {1,1,1} if that is impossible.
dim3 cluster_of(std::uint32_t blocks, const dim3& grid) noexcept {
  dim3 c(1, 1, 1);
  c.x = std::gcd(blocks, grid.x);
  c.y = std::gcd(blocks / c.x, grid.y);
  c.z = std::gcd(blocks / c.x / c.y, grid.z);
  return c.x * c.y * c.z == blocks ? c : dim3(1, 1, 1);
}

} // namespace

stand_in_launch fit_stand_in(const launch_shape& shape, std::uint32_t wanted, const gpu& on,
                             const std::string& what) {
  const auto refuse = [&] {
    throw error(
        errc::does_not_fit,
        what + ": a block of " + std::to_string(shape.threads_per_block()) + " threads, " +
            std::to_string(shape.registers_per_thread) + " registers each and " +
            std::to_string(std::uint64_t{shape.static_shared_bytes} + shape.dynamic_shared_bytes) +
            " bytes of shared memory, expected one that an SM of " + on.name + " holds");
  };
  const std::uint64_t shared =
      std::uint64_t{shape.static_shared_bytes} + shape.dynamic_shared_bytes;
  if (shape.threads_per_block() == 0 || shape.blocks() == 0 ||
      shape.threads_per_block() > on.sm.max_threads_per_block ||
      shared > on.sm.max_shared_per_block || shape.registers_per_thread > 255)
    refuse();

  const auto all = stand_in_kernels();
  const std::uint32_t registers = (shape.registers_per_thread + 7) / 8 * 8;
  auto kernel = std::find_if(all.begin(), all.end(), [&](const stand_in_kernel& k) {
    return k.registers >= std::min(registers, 255u) && facts_of(k).registers >= registers;
  });
  if (kernel == all.end()) kernel = all.end() - 1;
  const std::uint32_t own = facts_of(*kernel).static_shared;
  const std::uint32_t most = on.sm.max_shared_per_block - own;
  check(cudaFuncSetAttribute(kernel->function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(most)),
        "stand-in kernel");

  stand_in_launch l;
  l.function = kernel->function;
  l.grid = dim_of(shape.grid);
  l.block = dim_of(shape.block);
  l.dynamic_shared_bytes = static_cast<std::uint32_t>(shared > own ? shared - own : 0);
  if (shape.cluster_blocks > 1 && shape.cluster_blocks <= on.sm.max_opt_in_cluster_blocks)
    l.cluster = cluster_of(shape.cluster_blocks, l.grid);
  if (l.cluster_size() > std::max(on.sm.max_cluster_blocks, 1u))
    check(cudaFuncSetAttribute(kernel->function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
          "stand-in kernel");
  l.blocks_per_sm = blocks_held(l);
  if (wanted != 0 && l.blocks_per_sm > wanted) {
    // The largest shared memory with which `wanted` blocks fit, in allocation units.
    const std::uint32_t each = on.sm.shared_bytes / wanted / on.sm.shared_unit * on.sm.shared_unit;
    const std::uint32_t taken = own + on.sm.reserved_shared_bytes;
    stand_in_launch padded = l;
    padded.dynamic_shared_bytes = std::min(each > taken ? each - taken : 0, most);
    padded.blocks_per_sm = blocks_held(padded);
    if (padded.blocks_per_sm >= wanted && padded.blocks_per_sm < l.blocks_per_sm) l = padded;
  }
  if (l.blocks_per_sm == 0) refuse();
  return l;
}

cudaGraphNode_t add_stand_in(cudaGraph_t graph, std::span<const cudaGraphNode_t> after,
                             const stand_in_launch& launch, const stand_in_stay& stay) {
  stand_in_arguments arguments;
  arguments.preempt = stay.preempt;
  arguments.cycles = stay.cycles;
  arguments.saved = stay.saved;
  cudaKernelNodeParams p{};
  p.func = const_cast<void*>(launch.function);
  p.gridDim = launch.grid;
  p.blockDim = launch.block;
  p.sharedMemBytes = launch.dynamic_shared_bytes;
  p.kernelParams = arguments.pointers;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &p), "stand-in node");
  if (launch.cluster_size() > 1) {
    cudaLaunchAttributeValue v{};
    v.clusterDim.x = launch.cluster.x;
    v.clusterDim.y = launch.cluster.y;
    v.clusterDim.z = launch.cluster.z;
    check(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeClusterDimension, &v),
          "stand-in cluster");
  }
  return node;
}

} // namespace gsched::cuda
