// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/device/preemptive_device.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>

namespace gsched::cuda {

/// Options of a device.
struct device_options {
  int gpu = 0;                                     ///< the runtime's device number
  std::size_t max_segments = std::size_t{1} << 12; ///< accepted and not yet polled
  std::size_t ring_slots = std::size_t{1} << 16;   ///< of the notification ring; a power of two
  /// Blocks that one notification of an instrumented kernel covers, 1 to 16. 0: automatic, one
  /// block in small launches and 16 in large ones.
  std::uint32_t group_blocks = 0;
  /// load() also builds graphs that report blocks. All graphs are then built by load() on the
  /// owner's thread, and none by build().
  bool instrumented = false;
  duration grain =
      std::chrono::microseconds{100}; ///< load() divides programs into grains of about this time
  unsigned levels = 4; ///< load() builds graphs of 1, 2, 4, ... 2^(levels-1) aligned grains
  /// Graphs of each range: the number of its launches that can be in flight at once. 1 for programs
  /// with memory of their own, which concurrent jobs must not share.
  std::uint32_t copies = 1;
  bool whole = false; ///< load() also builds the graph of the whole program
  /// Graphs of lanes that yield have a gate beside every n-th kernel, 1 to 64. With 1, a lane stops
  /// soonest.
  unsigned gate_every = 2;
  /// One stream for set-up, flags and events in place of three, so that many devices of one process
  /// need fewer hardware queues. For devices whose lanes do not yield and that record no events:
  /// flags and events then wait for set-up.
  bool few_streams = false;
  bool time_driver = false; ///< measure device_statistics::driver_ns, which costs 50 ns a call
  /// A segment at the head of its lane that makes no progress for this long has hung. Time in which
  /// more urgent lanes have work, or in which the lane yields, does not count. If the GPU still
  /// runs other work, that segment fails, with the segments queued behind it on its lane; if the
  /// GPU runs nothing, the device ends. Zero: never.
  duration watchdog = std::chrono::seconds{10};
  /// A lane that yields is held for at most this long after the owner's last call of poll or wait.
  /// Then it continues by itself (expired_leases), so that a stopped process does not block the
  /// GPU. At most 16 s. Zero: without limit.
  duration lease = std::chrono::milliseconds{20};
};

/// Counters of a device.
struct device_statistics {
  std::uint64_t graph_launches = 0;  ///< of programs
  std::uint64_t direct_launches = 0; ///< kernels launched without a graph
  std::uint64_t built_late = 0;      ///< graphs that submit built because load had not
  std::uint64_t held = 0;      ///< segments that waited for space in the ring or on their lane
  std::uint64_t gates = 0;     ///< of all graphs
  std::uint64_t yields = 0;    ///< calls of yield
  std::uint64_t stopped = 0;   ///< segments that stopped at a gate because their lane yielded
  std::uint64_t preempted = 0; ///< segments preempted before their end
  /// Blocks that had ended and ran again, because their program was restarted from another
  /// operation than the preempted one. Without such a restart, each block runs once.
  std::uint64_t rerun_blocks = 0;
  /// Held lanes that continued by themselves, because the owner made no call or urgent work made no
  /// progress. Best-effort work then ran beside urgent work until its segment ended.
  std::uint64_t expired_leases = 0;
  /// Held lanes that were released because urgent work needed the SMs that their gates occupy.
  std::uint64_t opened = 0;
  /// Programs that ran only after a gate's lease had expired: their kernels wait for each other at
  /// a barrier of their own, or in clusters. No lane is held beside them from then on.
  std::uint64_t found_to_need_sms = 0;
  std::uint64_t hung = 0;          ///< segments that hung or were queued behind one that did
  std::uint64_t lost_words = 0;    ///< missing words of instrumented kernels that ended; see submit
  std::uint64_t unknown_words = 0; ///< words in the notification ring of no segment in flight
  std::uint64_t driver_ns = 0;     ///< host time in calls of the driver, if measured
};

class device;

/// The graphs of a program for the lanes of one device while the program is not loaded. It must be
/// destroyed before the device.
class program_graphs {
public:
  program_graphs() noexcept;
  ~program_graphs();
  program_graphs(program_graphs&&) noexcept;
  program_graphs& operator=(program_graphs&&) noexcept;

private:
  friend class device;
  struct state;
  explicit program_graphs(std::unique_ptr<state> s) noexcept;
  std::unique_ptr<state> state_;
};

/// Runs segments on a GPU: a model of gsched::device.
///
/// **Lanes and graphs.** A lane is a CUDA stream. A lane with SMs of its own is a stream of a green
/// context, and has its own graphs, whose kernels are placed there; the driver chooses where copies
/// and sets run. Lanes that keep SMs free (lane_options::reserved) share a green context and graphs
/// with lanes of equal options, and have graphs only of programs with a kernel of at least
/// lane_options::least_operation. On a lane of priority 0, kernels keep the priorities with which
/// they were captured; on other lanes they have the lane's priority.
///
/// **Segments.** A segment is one launch of a graph that was instantiated when its program was
/// loaded. The last node of the graph is a kernel of one thread, the marker, which stores to pinned
/// memory, where poll reads it. A range that load() has not foreseen is built when it is first
/// submitted; that allocates and takes about 10 us for each operation.
///
/// **Standalone operations.** Operations of no program are copies and sets. A graph that consists
/// of the marker follows them. The pointers define the kind of a copy, not its direction. Copies
/// within a GPU and sets are kernels, and are launched as graphs of one node, because kernels
/// launched on several streams would slow all later graphs of the process (docs/research/cliff.md).
/// Only submission::launches launches kernels outside of graphs.
///
/// **Gates.** A lane opened with lane_options::yields has graphs with gates. A gate is a kernel of
/// one thread beside kernels of the graph, and later kernels depend on it. yield and resume only
/// store to words in pinned memory that the gates read. A segment stops behind the kernels beside
/// the next gate. If no gate follows these kernels directly, lane_yielded is polled after the time
/// that they take alone. In such graphs, all sets and copies are kernels, and nodes have the lane's
/// priority. Operations that cannot be held (program::can_be_held), standalone operations, and
/// direct launches run to their end.
///
/// A gate stays closed for the time of a lease (device_options::lease), which poll and wait renew
/// while the work of other lanes makes progress. During a call of the driver the lease is one
/// millisecond: if another thread waits in the driver for the whole GPU (cudaFree), the driver
/// returns only after the lane has continued. If a segment of another lane needs SMs that gates
/// occupy (a cooperative launch that fills the GPU), lanes that yield are released, and stop at the
/// ends of their segments.
///
/// **Preemptible programs.** A program for which cuda::program::is_preemptible() holds has no
/// gates. yield sets the program's flag with one call of the driver, its segments are preempted
/// (Y2), and no segment of it starts until the flag is seen cleared. At most one launch of each of
/// its ranges is in flight. Its segments are neither followed by other work on their lane before
/// they have ended, nor queued behind segments with gates. A segment that does not start at the
/// preempted operation runs all of its blocks again.
///
/// Differs  D6: work that the driver has accepted counts as started; evict takes back segments that
///          wait for space in the notification ring or for their lane (see Cost).
///          D4: if nothing is in flight, waiting for no_deadline returns at once.
/// Errors   open_lane: too_small for lanes or SMs that are taken; bad_option for both `sms` and
///          `reserved`.
///          load: bad_handle for a program that is not the host() of a cuda::program; bad_option
///          for a preemptible one where device_options::copies is not 1; out_of_memory and
///          device_failed, with CUDA's message; the device continues without the program.
///          Both: bad_graph if a lane has SMs of its own and a kernel belongs to one context (of
///          cuModuleLoad), because that kernel cannot be placed.
///          submit: bad_option as for every device; bad_handle for an operation without an action;
///          too_small for a segment of more words than the notification ring has slots, or beyond
///          max_segments; a CUDA code if the driver refuses. Then nothing of the segment was
///          launched, or, if a part of a program was, the device has ended.
///          Refused copy: if the driver refuses a copy or a set behind other operations of its
///          segment, the segment is polled as failed once those have ended, and why_failed() has
///          CUDA's message.
///          Lost words: missing words of an instrumented kernel are counted as lost 200 ms after
///          its segment ended; the segment then counts as done.
///          Hang: if a kernel hangs while the GPU runs other work, its segment, and those behind it
///          on the lane, are polled as failed (lost), and why_failed() names the kernel. The lane
///          continues with a new stream. The programs of these segments are refused from then on
///          (hangs(program)), and their memory is never freed, because the GPU may still use it.
///          While the kernel runs, the driver may wait for it; so no device of this process on this
///          GPU is made, opens lanes, builds, loads or prepares (device_failed), and a segment
///          whose graph was not built, as well as new programs, are refused with CUDA's code of a
///          launch timeout. Four lanes can be abandoned in this way; the next one ends the device.
///          End: a sticky error of CUDA (an illegal access), or a GPU that runs nothing, ends the
///          device. All accepted work that has not ended is polled as failed, submit returns the
///          code, and failure() gives the reason. Work and memory on the GPU are abandoned. Codes
///          of stream capture (900 to 907) are never sticky.
/// Cost     submit: one graph launch. poll: one load for each busy lane. A standalone operation
///          takes one or two calls of the driver, a copy also two look-ups of its pointers, and the
///          segment one graph launch more. A set or a copy that cannot be an update of the previous
///          one (of another size or kind of memory) is built_late. Standalone copies to pageable
///          memory, or of more than 64 KiB from it, block the host while they run; they are
///          submitted when all earlier work of their lane has ended.
/// Threads  one owner. build() and the destruction of program_graphs: any thread. One thread may
///          drive several devices, of one GPU or of several. The owner's thread is switched to the
///          relaxed capture mode, so that captures of other threads do not affect it. A loaded
///          program must outlive the device, unless it was unloaded.
class device {
public:
  explicit device(const device_options& o = {});
  /// Waits for work in flight, at most for the watchdog's time; work that hangs is abandoned.
  ~device();
  device(device&&) noexcept;
  device& operator=(device&&) noexcept;

  lane_id open_lane(const lane_options& how);
  /// Opens a lane on these groups of the GPU's split (group_sizes). Lanes of other devices may
  /// share them, for successive plans. how.sms is ignored.
  /// Errors   also those of partition.
  lane_id open_lane(const lane_options& how, std::span<const std::uint32_t> groups);
  void load(gsched::program& p);
  void load(program& p) { load(p.host()); }
  /// Builds the graphs that load() builds, from any thread and while the device runs, and sets how
  /// the program is divided into grains. While the device is busy, it pauses between graphs,
  /// because the driver runs no other call while it builds one: building takes about four times as
  /// long then, and graphs of more than about 100 nodes up to a fifth of a second each.
  ///
  /// With device_options::instrumented it builds no graph and only divides the program: launch
  /// slots belong to the owner, so load() builds all graphs, in the owner's time.
  /// Errors   as load.
  [[nodiscard]] program_graphs build(gsched::program& p);
  /// Loads the result of build() in a few microseconds; lanes opened since then take longer.
  void load(gsched::program& p, program_graphs built);
  /// Unloads a program, of which nothing may be in flight. Destroying the result destroys the
  /// graphs, which takes about as long as building them and may happen on any thread. The launch
  /// slots are released here.
  /// Errors   bad_handle for a program that is not loaded, bad_option for one in flight.
  [[nodiscard]] program_graphs unload(gsched::program& p);
  /// Whether a kernel of a loaded program hung; the program cannot run again.
  [[nodiscard]] bool hangs(program_id p) const noexcept;
  /// Whether an abandoned kernel of this process still runs on the GPU; nothing can be built then.
  [[nodiscard]] bool hangs() const noexcept;
  /// Builds the graphs of operations [first, last) of a loaded program, for all open lanes: for
  /// segments whose ends are not the ends of grains (gsched::program::align).
  /// Errors   as load; bad_handle for a program that is not loaded, bad_option for an empty range.
  void prepare(const gsched::program& p, std::size_t first, std::size_t last);
  /// Builds the graph of the whole program for one lane. For a lane with SMs of its own, this is
  /// the only way to build programs that are kept whole.
  void prepare(const gsched::program& p, lane_id lane);
  [[nodiscard]] std::error_code submit(const segment& s) noexcept;
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept;
  [[nodiscard]] std::size_t evict(lane_id lane) noexcept;
  void yield(lane_id lane) noexcept;
  void resume(lane_id lane) noexcept;
  void wait(time_point t) noexcept;
  /// Records an event of this GPU on an idle stream, so that it completes at once even while lanes
  /// are held. One call of the driver. Returns CUDA's code.
  [[nodiscard]] std::error_code record(CUevent event) noexcept;
  [[nodiscard]] time_point now() const noexcept;
  [[nodiscard]] const device_limits& limits() const noexcept;

  [[nodiscard]] const gpu& facts() const noexcept;
  [[nodiscard]] const device_statistics& statistics() const noexcept;
  [[nodiscard]] program_memory memory_of(const gsched::program& p) const;
  /// Why the device has ended: one line with CUDA's message and the segment that was running
  /// (program, operations, kernel). Unset while it works.
  [[nodiscard]] const std::optional<std::string>& failure() const noexcept;
  /// Why the last segment polled as failed did fail, in one line; empty if none has.
  [[nodiscard]] const std::string& why_failed() const noexcept;
  /// The stream of a lane, for set-up that must run there, such as capture.
  [[nodiscard]] CUstream stream_of(lane_id lane) const noexcept;
  /// The SMs of a lane; it may have more than requested.
  [[nodiscard]] sm_count sms_of(lane_id lane) const noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

static_assert(preemptive_device<device>);

} // namespace gsched::cuda
