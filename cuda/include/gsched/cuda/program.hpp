// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/notify/notification_ring.hpp>
#include <gsched/cuda/notify/report.hpp>
#include <gsched/cuda/preempt/preemption.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/preempt/access.hpp>
#include <gsched/preempt/restrict_preemptibility.hpp>

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gsched::cuda {

/// Options of a program.
struct program_options {
  std::string name{};
  /// The duration of each operation when it runs alone; one value for each operation.
  ///
  /// Empty: the constructor measures them on the GPU. It runs the graph 2 * measured_runs + 3
  /// times, or eight times as often where the GPU's clock is coarse, with all side effects on
  /// buffers and of host functions. An operation of more than 20 s is an error.
  std::vector<duration> durations{};
  bool measure = true; ///< false, without durations: each operation counts as 5 us
  int measured_runs = 5;
  /// The memory accesses of the operations, in program order; null: unknown. A preemptible kernel
  /// whose blocks cannot restart safely is then preempted between blocks instead of at checkpoints
  /// (restrict_preemptibility, program::restricted). Read by the constructor only.
  const access_trace* accesses = nullptr;
};

/// Facts of a captured node for profiling and replay.
struct node_facts {
  std::string symbol; ///< mangled; kernels only
  std::uint64_t local_bytes = 0;
  bool instrumented = false;        ///< one of its parameters is a gsched::cuda::report
  std::vector<std::uint32_t> after; ///< its direct dependencies: operations in program order
};

/// A gate of a range's graph: a kernel that can block the kernels behind it. See device.
struct gate {
  std::uint32_t operation = 0; ///< of the program; the gate starts together with this operation
  duration takes{};            ///< bound on the rest of the operations that started before it
  /// While this gate is closed, the next gate closes as soon as the earlier operations have ended.
  bool followed = false;
};

/// Options of program::make_range.
struct range_options {
  /// The reports of the instrumented kernels, in order; empty: the kernels report nothing.
  std::span<const report> reports{};
  /// For a preemptible program: the preemption parameter of each operation of the range, in place
  /// of the captured one.
  std::span<const preemption> preemptions{};
  /// The green context on whose SMs the kernels run; null: as captured.
  CUcontext place = nullptr;
  /// Keeps sets, and copies within the GPU's memory, as captured. Else kernels do them, on the SMs
  /// of `place`: a set or copy node can wait until another graph's replay has ended
  /// (docs/research/memory_nodes.md).
  bool keep_memory_nodes = false;
  /// Operations from one gate to the next; 0: no gates. The first gate is beside the second
  /// operation, and no gate is beside the last one. A graph with gates runs all sets and copies
  /// as kernels. A range for which can_be_held is false has no gates. In a graph that forks, a gate
  /// stops all branches at about the same time of the range; branches do not wait for each other.
  unsigned gate_every = 0;
  CUdeviceptr gate_words = 0;         ///< device address of the graph's gate_line
  std::vector<gate>* gates = nullptr; ///< out: the gates, in order
};

/// Memory and graphs that a program adds to the model itself.
struct program_memory {
  std::uint64_t device_bytes = 0; ///< change of free memory: includes concurrent allocations
  std::uint64_t graphs = 0;       ///< instantiated graphs
  std::uint64_t nodes = 0;        ///< of all these graphs
};

/// A captured graph as a sequence of operations, which can be cut into segments at any operation.
///
/// The constructor clones the graph; the original may be destroyed. The memory that the nodes use
/// and the modules of the kernels must outlive the program.
///
/// Kernels, memcpys and memsets become operations. Their order keeps all dependencies: by depth
/// (the length of the longest path to the operation), then by capture order. Parallel branches are
/// interleaved, so that a cut divides all of them. An empty, event or host node belongs to the last
/// operation that it depends on, or to the first operation. Child graphs are flattened. Within a
/// range, clusters, priorities and all kinds of edges are kept. A programmatic edge from a kernel
/// outside the range is dropped, because that kernel has ended. Empty nodes become edges.
///
/// Errors   no_device; bad_graph, one line that names the node, for an unsupported node (memory
///          allocation, conditional, ...), an empty graph, a cycle, or a graph of another GPU.
///          "graph NAME: node 3.12 is ..." is node 12 of the child graph that is node 3. bad_option
///          for a wrong number of durations or reports, or for accesses of another program;
///          device_failed with CUDA's message where a clone or a measurement fails. A kernel that
///          has run is never refused by a computed limit.
/// Threads  construction on one thread; immutable afterwards.
class program {
public:
  /// Makes a program of the current GPU.
  program(CUgraph graph, const program_options& how);
  ~program();
  program(program&&) noexcept;
  program& operator=(program&&) noexcept;

  /// The program for the host library; each operation's handle refers to this object. The address
  /// is stable while this object lives, also when it is moved.
  [[nodiscard]] gsched::program& host() noexcept;
  [[nodiscard]] const gsched::program& host() const noexcept;
  /// The program whose host() is `p`; null if `p` is not the host() of any.
  [[nodiscard]] static program* of(const gsched::program& p) noexcept;

  [[nodiscard]] std::span<const node_facts> facts() const noexcept;
  /// The median time of one replay of the whole captured graph, replayed back to back. For a graph
  /// that runs shorter than its launch, this is the host's time of a launch. Unset if not measured.
  [[nodiscard]] std::optional<duration> graph_replay() const noexcept;

  /// Makes a graph of operations [first, last). The caller instantiates and destroys it.
  ///
  /// Errors   with how.place: bad_graph, one line that names the kernel, for a kernel that belongs
  ///          to one context (of cuModuleLoad), because it cannot be placed. Copies and sets that
  ///          stay nodes are not placed.
  /// Cost     O(nodes of the range).
  /// Threads  any number at once.
  [[nodiscard]] CUgraph make_range(std::size_t first, std::size_t last,
                                   const range_options& how = {}) const;
  /// Whether a graph of the range can have gates: all of its nodes run on SMs, as kernels or as
  /// sets and copies that a kernel can do. Host nodes, event nodes, and copies from or to memory
  /// that a kernel cannot reach do not.
  [[nodiscard]] bool can_be_held(std::size_t first, std::size_t last) const noexcept;
  /// Which kernels needs_at_once() counts.
  enum class need : std::uint8_t {
    to_run,     ///< cooperative launches: their blocks wait for each other
    to_be_quick ///< also kernels that use all shared memory of an SM: without a free SM for each of
                ///< their blocks, a block waits for another one to end
  };
  /// The SMs, of `has`, that the range needs at the same time. 0 if it has no such kernel. A kernel
  /// with more blocks than fit at once does not count, because its blocks run in waves anyway.
  [[nodiscard]] sm_count needs_at_once(std::size_t first, std::size_t last,
                                       const architecture_limits& l, sm_count has,
                                       need what) const noexcept;
  /// Whether all operations are preemptible kernels (gsched::cuda::preemption). If only some of
  /// them are, no operation is preemptible in this program, and operation::preemptible says so.
  [[nodiscard]] bool is_preemptible() const noexcept;
  /// The preemption parameter of operation i of a preemptible program, with restrictions applied.
  [[nodiscard]] const preemption& captured_preemption(std::size_t i) const noexcept;
  /// The operations that were captured with checkpoints but are not preempted there, because a
  /// block that restarts would overwrite its own input.
  [[nodiscard]] std::span<const preemptibility_restriction> restricted() const noexcept;
  /// The number of instrumented kernels of the range.
  [[nodiscard]] std::size_t instrumented(std::size_t first, std::size_t last) const noexcept;
  /// Launches the operations of the range one by one on a stream, without the other nodes. For
  /// submission::launches.
  [[nodiscard]] CUresult launch_each(std::size_t first, std::size_t last, CUstream stream,
                                     std::span<const report> reports) const noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched::cuda
