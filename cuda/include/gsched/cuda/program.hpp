// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/notification_ring.hpp>
#include <gsched/cuda/preemption.hpp>
#include <gsched/cuda/report.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/preempt/access.hpp>
#include <gsched/preempt/restrict_leaving.hpp>

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gsched::cuda {

struct program_options {
  std::string name{};
  /// What each operation takes, alone; must be as many as there are operations. Empty: they are
  /// measured on the GPU when the program is made. That runs the graph 2 * measured_runs + 3 times,
  /// or eight times as often where the GPU's clock is coarse, and has all the effects of running
  /// it: on its buffers, and by its host functions. An operation that takes over 20 s is an error.
  std::vector<duration> durations{};
  bool measure = true; ///< false, and no durations: all operations count as equal, 5 us each
  int measured_runs = 5;
  /// What the operations do to memory, in the program's order; null: nobody says. Kernels that
  /// leave at checkpoints leave between blocks then, where their blocks must not start anew: see
  /// restrict_leaving, and program::restricted. Read while the program is made.
  const access_trace* accesses = nullptr;
};

/// What a node of the captured graph is to whoever profiles or replays it.
struct node_facts {
  std::string symbol; ///< mangled; kernels only
  std::uint64_t local_bytes = 0;
  bool instrumented = false;        ///< a parameter of it is a gsched::cuda::report
  std::vector<std::uint32_t> after; ///< operations it waits for directly, in the program's order
};

/// Holds a range's graph between its kernels: see device.
struct gate {
  std::uint32_t operation = 0; ///< of the program: the gate starts when this one does
  duration takes{};            ///< while the gate stands, what started before it ends within this
  /// Where the graph is held by it, the next gate stands as soon as what started before has ended.
  bool followed = false;
};

/// How a range's graph is made.
struct range_options {
  /// Its instrumented kernels report to these, one for each of them in order, or to nobody.
  std::span<const report> reports{};
  /// Of a program that leaves: by operation of the range, instead of those captured.
  std::span<const preemption> leaving{};
  /// A green context's, on whose SMs the kernels run then; null, as they were captured.
  CUcontext place = nullptr;
  /// A gate beside every so many operations, from the second on, but none beside the last one; 0:
  /// none. In a graph with gates, sets and copies are kernels; a range that cannot be held
  /// (program::can_be_held) has no gates. Where the graph forks, a gate holds all branches at about
  /// the same time of the range, and they do not wait for one another.
  unsigned gate_every = 0;
  CUdeviceptr gates_look_at = 0;      ///< the device's: a line for each graph
  std::vector<gate>* gates = nullptr; ///< this is set to them, in order
};

/// What a program costs beyond the model itself.
struct program_memory {
  std::uint64_t device_bytes = 0; ///< free memory before and after, so others' allocations count
  std::uint64_t graphs = 0;       ///< instantiated
  std::uint64_t nodes = 0;        ///< of them all together
};

/// A captured graph as operations that can be cut into segments anywhere.
///
/// The graph is cloned: what becomes of it afterwards does not matter, but the memory that its
/// nodes use, and the modules of its kernels, must live as long as the program. Kernels, memcpys
/// and memsets become operations, in one order that keeps all dependencies: by depth, the length of
/// the longest path that leads to an operation, then by capture order. So branches that run side by
/// side are interleaved, and a range cuts all of them. Empty, event and host nodes go with the last
/// operation that they wait for (or the first), and child graphs are taken apart. Clusters,
/// priorities and edges of any kind are kept within a range. A programmatic edge from a kernel
/// outside of the range is left out, as that kernel has ended by then.
///
/// Errors   no_device; bad_graph, one line that names the node, for memory allocation, conditional
///          and other nodes that cannot be kept, an empty graph, a cycle, or a graph of another
///          GPU: "graph NAME: node 3.12 is ..." is node 12 of the child graph that is node 3;
///          bad_option for a wrong number of durations or reports, or accesses of another program;
///          device_failed with CUDA's words where a clone or a measurement fails. What has run is
///          not refused by a computed limit.
/// Threads  set-up on one thread; immutable afterwards.
class program {
public:
  /// Of the GPU that is current.
  program(CUgraph graph, const program_options& how);
  ~program();
  program(program&&) noexcept;
  program& operator=(program&&) noexcept;

  /// What the host library schedules; each operation's handle leads back here. In place while this
  /// lives, also when moved.
  [[nodiscard]] gsched::program& host() noexcept;
  [[nodiscard]] const gsched::program& host() const noexcept;
  /// The program whose host() that is; null if it was not made here.
  [[nodiscard]] static program* of(const gsched::program& p) noexcept;

  [[nodiscard]] std::span<const node_facts> facts() const noexcept;
  /// Of the whole captured graph, replayed back to back: the median. A graph that is shorter than
  /// its launch takes the host's time for that. Unset if it was not measured.
  [[nodiscard]] std::optional<duration> graph_replay() const noexcept;

  /// A graph of operations [first, last), to be instantiated; the caller destroys it. O(nodes of
  /// the range). May be called by several threads at once.
  ///
  /// With a place: bad_graph, one line that names the kernel, for one that belongs to a context,
  /// such as one of cuModuleLoad: it cannot be placed. Copies and sets run where the driver has
  /// them run.
  [[nodiscard]] CUgraph make_range(std::size_t first, std::size_t last,
                                   const range_options& how = {}) const;
  /// Whether a graph of the range can have gates: all of it runs on SMs, as kernels or as sets and
  /// copies that kernels can do. Host and event nodes, and copies from or to memory that a kernel
  /// cannot reach, do not.
  [[nodiscard]] bool can_be_held(std::size_t first, std::size_t last) const noexcept;
  /// What a range needs SMs at once for.
  enum class need : std::uint8_t {
    to_run,     ///< its largest cooperative launch, whose blocks wait for one another
    to_be_quick ///< also its largest kernel that takes all of an SM's shared memory: where an SM is
                ///< taken, one of its blocks waits until another has ended
  };
  /// How many of the SMs that there are the range needs at once. A kernel with more blocks than fit
  /// does not count, since they run one after another anyway. 0 where it has none of either kind.
  [[nodiscard]] sm_count needs_at_once(std::size_t first, std::size_t last,
                                       const architecture_limits& l, sm_count has,
                                       need what) const noexcept;
  /// Whether all operations are kernels that leave (gsched::cuda::preemption). If only some do,
  /// none does here, and operation::leaves says so.
  [[nodiscard]] bool leaves() const noexcept;
  /// Of operation i of a program that leaves; of restricted ones as they leave now.
  [[nodiscard]] const preemption& captured_preemption(std::size_t i) const noexcept;
  /// Operations that do not leave at checkpoints, though captured to: they would clobber.
  [[nodiscard]] std::span<const leaving_restriction> restricted() const noexcept;
  /// How many kernels of the range are instrumented.
  [[nodiscard]] std::size_t instrumented(std::size_t first, std::size_t last) const noexcept;
  /// Launches the operations of a range one by one on a stream: kernels, copies and sets, without
  /// the nodes that go with them. For submission::launches.
  [[nodiscard]] CUresult launch_each(std::size_t first, std::size_t last, CUstream stream,
                                     std::span<const report> reports) const noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched::cuda
