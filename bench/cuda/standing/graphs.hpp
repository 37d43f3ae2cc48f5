// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace standing {

struct graph_deleter {
  void operator()(CUgraph g) const noexcept { gsched::cuda::driver().cuGraphDestroy(g); }
  void operator()(CUgraphExec g) const noexcept { gsched::cuda::driver().cuGraphExecDestroy(g); }
};
using graph = std::unique_ptr<std::remove_pointer_t<CUgraph>, graph_deleter>;
using executable = std::unique_ptr<std::remove_pointer_t<CUgraphExec>, graph_deleter>;

/// The node behind every nine kernels of a chain.
enum class node_kind {
  none,
  set_4_bytes,
  set_4_kib,
  set_1_mib,
  set_rows,
  set_by_kernel,
  copy_within,
  copy_from_pinned,
  copy_to_pinned,
  host_function,
  empty,
  event_record,
  event_wait,
  priority, ///< a kernel of the highest priority
  child,    ///< a child graph of two kernels
  cooperative,
  cluster,
  programmatic, ///< a kernel behind a programmatic edge
};

/// How the graph can be held.
enum class gate_way {
  none,
  beside,         ///< a kernel of one thread beside a kernel; the next level waits for both
  in_line,        ///< that kernel between two levels
  wait_on_host,   ///< a wait node of stream memory operations between two levels, pinned memory
  wait_on_device, ///< the same, device memory
};

struct graph_kind {
  std::string_view name;
  node_kind between = node_kind::none;
  gate_way gates = gate_way::beside;
  unsigned every = 2;    ///< levels from one gate to the next
  unsigned branches = 1; ///< kernels of a level; above 1 they follow one common kernel
  unsigned levels = 126;
};

/// The words that hold one graph: addresses on the GPU.
struct graph_words {
  CUdeviceptr line = 0;         ///< hold_line
  CUdeviceptr host_waits = 0;   ///< a word for each gate: a wait node waits until it is 0
  CUdeviceptr device_waits = 0; ///< the same
};
/// The largest number of wait nodes of a graph.
inline constexpr std::size_t most_waits = 256;

/// The memory and the event that other nodes use.
struct node_memory {
  static constexpr std::size_t bytes = std::size_t{4} << 20; ///< of the device
  static constexpr std::size_t pinned_bytes = std::size_t{1} << 20;
  CUdeviceptr device = 0;
  void* pinned = nullptr;
  cudaEvent_t event = nullptr; ///< recorded once
};

struct kernel_shape {
  double us = 3;
  unsigned blocks = 16;
};

struct made_graph {
  graph handle;
  unsigned gates = 0;
};

[[nodiscard]] graph new_graph();
[[nodiscard]] executable instantiate(const graph& g, unsigned flags = 0);

[[nodiscard]] CUkernel kernel_of(const void* function);
/// Adds a kernel node; the arguments' types are those of the kernel's parameters.
CUgraphNode add_kernel_of(CUgraph to, const std::vector<CUgraphNode>& behind, CUkernel kernel,
                          unsigned blocks, unsigned threads, std::size_t shared_bytes,
                          void** arguments);
template <class... Arguments>
CUgraphNode add_kernel(CUgraph to, const std::vector<CUgraphNode>& behind, CUkernel kernel,
                       unsigned blocks, unsigned threads, std::size_t shared_bytes,
                       Arguments... arguments) {
  std::array<void*, sizeof...(Arguments)> all{&arguments...};
  return add_kernel_of(to, behind, kernel, blocks, threads, shared_bytes, all.data());
}
void set_cooperative(CUgraphNode kernel);

/// Builds graphs of kernels that run for a given time.
class graph_maker {
public:
  /// The memory outlives the graphs.
  graph_maker(int gpu, const node_memory& memory);

  [[nodiscard]] made_graph make(const graph_kind& kind, const kernel_shape& kernel,
                                const graph_words& words = {}) const;
  /// A chain of kernels without gates.
  [[nodiscard]] graph chain(unsigned kernels, const kernel_shape& kernel) const;

private:
  class build;
  node_memory memory_;
  double cycles_per_us_ = 0;
};

} // namespace standing
