// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/device/preemptive_device.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>

namespace gsched::cuda {

struct device_options {
  int gpu = 0;                                     ///< the runtime's number
  std::size_t max_segments = std::size_t{1} << 12; ///< accepted and not yet polled
  std::size_t ring_slots = std::size_t{1} << 16;   ///< of the notification ring; a power of two
  /// Blocks that a notification of an instrumented kernel covers, 1 to 16; 0 chooses by the launch:
  /// every block tells where they are few, groups of 16 where they are many.
  std::uint32_t group_blocks = 0;
  /// load() builds the graphs that report blocks, too. Then load() builds all graphs, on the
  /// owner's thread, and build() builds none.
  bool instrumented = false;
  duration grain =
      std::chrono::microseconds{100}; ///< load() cuts programs into pieces of about this ...
  unsigned levels = 4; ///< ... and builds graphs of 1, 2, 4, ... 2^(levels-1) pieces, aligned
  std::uint32_t copies =
      1;              ///< graphs of each range: as many launches of it can be in flight at once.
                      ///< One, for programs with memory of their own: jobs must not share that
  bool whole = false; ///< load() builds the graph of all of a program's operations as well
  /// Lanes that yield have graphs of their own, with a gate beside every so many kernels, 1 to 64.
  /// With 1 a lane that yields stops soonest.
  unsigned gate_every = 2;
  bool time_driver = false; ///< keep device_statistics::driver_ns, which takes 50 ns a call
  /// A segment at the head of its lane on which nothing moves for that long counts as hung; time in
  /// which more urgent lanes have work, or in which the lane yields, does not count. Where the GPU
  /// still runs other work, only that segment fails, with what is queued behind it on its lane.
  /// Where the GPU runs nothing, the device ends. Zero: never.
  duration watchdog = std::chrono::seconds{10};
  /// A lane that yields stands for at most this long without a sign of life of the owner: a call of
  /// poll or wait. Then it goes on by itself, which statistics count (expired_leases). So a process
  /// that is stopped does not hold the GPU. At most 16 s. Zero: without limit.
  duration lease = std::chrono::milliseconds{20};
};

struct device_statistics {
  std::uint64_t graph_launches = 0;  ///< of programs
  std::uint64_t direct_launches = 0; ///< kernels launched one by one, on any lane
  std::uint64_t built_late = 0; ///< graphs that submit had to build, as load had not foreseen them
  std::uint64_t held = 0;  ///< segments that waited for room in the notification ring or their lane
  std::uint64_t gates = 0; ///< in all graphs
  std::uint64_t yields = 0;  ///< calls of yield
  std::uint64_t stopped = 0; ///< segments that stood at a gate when their lane had yielded
  std::uint64_t left = 0;    ///< segments that have left before their end
  /// Blocks that had ended and run again: of kernels of which other blocks had left, in programs
  /// that were then run from another operation than that. All others run once.
  std::uint64_t rerun_blocks = 0;
  /// Lanes that stood and went on by themselves, as the owner gave no sign of life, or as urgent
  /// work did not move: best-effort work ran beside urgent work until its segment ended.
  std::uint64_t expired_leases = 0;
  /// Lanes that stood and were let go, as urgent work needs the SMs that their gates stand on.
  std::uint64_t opened = 0;
  /// Programs that did not run until a gate's lease ran out, and did then: kernels that wait for
  /// one another at a barrier of their own, or in clusters. No lane stands beside them from then
  /// on.
  std::uint64_t found_to_need_sms = 0;
  std::uint64_t hung = 0;          ///< segments that hung, or were queued behind one that did
  std::uint64_t lost_words = 0;    ///< of instrumented kernels that ended; see submit
  std::uint64_t unknown_words = 0; ///< in the notification ring, of no segment in flight
  std::uint64_t driver_ns = 0;     ///< host time inside the driver's calls; if timed
};

class device;

/// The graphs of a program for the lanes of one device, while the program is not loaded. Destroyed
/// before the device.
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
/// A lane is a CUDA stream; one with its own SMs is a stream of a green context, and has graphs of
/// its own, whose kernels are placed there; copies and sets run where the driver has them run.
/// Lanes that leave SMs (lane_options::leaves) share a green context and graphs with those of equal
/// options, and have graphs of programs with a kernel of lane_options::least_operation alone. A
/// segment is the launch of a graph that was instantiated when its program was loaded. The graph's
/// last node is a kernel of one thread that counts its launches in pinned memory, where poll reads
/// it. A range that load() has not foreseen is built when it is first submitted, which allocates
/// and takes about 10 us an operation.
///
/// Operations of no program are copies and sets, and after them a graph of that last node alone.
/// Copies within a GPU and sets are kernels; they are launched as graphs of one node, as kernels
/// launched on several streams would make every later graph of the process slower (docs/cliff.md).
/// So nothing but submission::launches launches kernels outside of graphs. What a copy is, its
/// pointers say, not its direction.
///
/// On a lane of priority 0, the kernels of a graph keep the priorities with which they were
/// captured; on any other they have the lane's.
///
/// A lane opened with lane_options::yields has graphs with gates: kernels of one thread beside
/// kernels of the graph, for which later kernels wait. yield and resume store to words in pinned
/// memory that the gates read, and call nothing. A segment stops behind the kernels beside which
/// the next gate is. Where no gate comes right behind them, lane_yielded is polled when the time is
/// over that they take alone. In such graphs sets and copies are kernels, and all nodes have the
/// lane's priority. Operations that cannot be held (program::can_be_held), copies and sets of no
/// program, and direct launches run to their ends.
///
/// A gate stands on a lease (device_options::lease), which poll and wait renew as long as the other
/// lanes' work moves. During a call of the driver the lease is a millisecond: another thread that
/// waits in the driver for the whole GPU (cudaFree) keeps the driver from returning until the lane
/// goes on. Where a segment of another lane needs SMs on which gates stand (a cooperative launch of
/// as many blocks as fit), lanes that yield are let go, and stop at the ends of their segments.
///
/// A program that leaves (cuda::program::leaves) has no gates: yield raises a flag of the program
/// with one call of the driver, its segments are preempted (Y2), and nothing of it starts until the
/// flag is seen to be down again. At most one launch of each range is under way, and behind its
/// segments nothing else is launched on their lane before they have ended; nor are they behind
/// segments with gates. A segment of it that begins elsewhere than with what is left runs all.
///
/// Differs  D6: what has been handed to the driver has started; evict takes back what waits for
///          room in the notification ring, or for its lane (see Cost).
///          D4: where nothing is under way, waiting for no_deadline returns at once.
/// Errors   open_lane: too_small for lanes or SMs that are taken; bad_option for `sms` and `leaves`
///          together.
///          load: bad_handle for a program that is not of cuda::program::host(); bad_option for one
///          that leaves where device_options::copies is not 1; out_of_memory and
///          device_failed, with CUDA's words, and the device works on without the program.
///          Both: bad_graph where a lane has its own SMs, for a kernel that belongs to a context
///          (of cuModuleLoad), as it cannot be placed on them.
///          submit: bad_option as in every device; bad_handle for an operation without an action;
///          too_small for a segment of more words than the notification ring has slots, or one
///          beyond max_segments; a CUDA code where the driver refuses, with nothing of the segment
///          launched or, if a part of a program was, with the device ended.
///          A copy or set that the driver refuses behind others of its segment: the segment is
///          polled as failed once those have ended, and why_failed() has CUDA's words.
///          Words of an instrumented kernel that never come are counted as lost, 200 ms after its
///          segment ended, and then the segment counts as done.
///          A kernel that hangs while the GPU runs other work: its segment, and those behind it on
///          the lane, are polled as failed (lost); why_failed() names the kernel; the lane goes on
///          with a new stream; the programs of these segments, whose memory the GPU may still use,
///          are refused from then on (hangs(program)), and what they have is never freed. While the
///          kernel runs, no device of this process on this GPU is made, opens lanes, builds, loads
///          or prepares (device_failed), a segment whose graph was not built is refused with CUDA's
///          code of a launch timeout, and so are new programs: the driver might wait for the
///          kernel. Four lanes can be given up so; the next one ends the device. An error that CUDA
///          keeps to (an illegal access), or a GPU that runs nothing, ends the device: all that was
///          accepted and has not ended is polled as failed, submit answers with the code, failure()
///          says why. Work that was on the GPU is left where it is, with its memory. Codes of
///          stream capture (900 to 907) are never lasting.
/// Cost     submit: one graph launch; poll: a load for each busy lane. A loose operation takes a
///          call or two of the driver, a copy two look-ups of its pointers as well, and the segment
///          one graph launch more. A set or a copy that the driver cannot make of the former one
///          (of another size or kind of memory, as it sees fit) is built_late.
///          Loose copies to pageable memory, or of more than 64 KiB from it, make the host wait
///          while they run; so they are handed over when all before them on their lane has ended.
/// Threads  one owner; build() and the end of a program_graphs from any thread; several devices, of
///          one GPU or of several, may be driven by one thread. The owner's thread gets the relaxed
///          capture mode, so that captures of other threads do not concern it. What was loaded
///          outlives the device, unless it was unloaded.
class device {
public:
  explicit device(const device_options& o = {});
  /// Waits for what is in flight, up to the watchdog's time; what hangs is left behind.
  ~device();
  device(device&&) noexcept;
  device& operator=(device&&) noexcept;

  lane_id open_lane(const lane_options& how);
  /// On these groups of the GPU's split (group_sizes), which lanes of other devices may have too:
  /// for plans that follow one another. how.sms does not count. Errors   also those of partition.
  lane_id open_lane(const lane_options& how, std::span<const std::uint32_t> groups);
  void load(gsched::program& p);
  void load(program& p) { load(p.host()); }
  /// Builds what load() builds, without the owner: from any thread, while the device runs. Sets how
  /// the program is cut. While the device is busy it pauses between graphs, as the driver runs no
  /// other call while it builds one: it takes about four times as long then, and for graphs of more
  /// than about 100 nodes up to a fifth of a second each.
  /// With device_options::instrumented it builds no graph, only sets how the program is cut: launch
  /// slots are the owner's, so load() builds all graphs, which keeps the owner as long as load()
  /// alone would. Errors   as load.
  [[nodiscard]] program_graphs build(gsched::program& p);
  /// Loads what build() made, in a few microseconds; lanes that were opened since take longer.
  void load(gsched::program& p, program_graphs built);
  /// Forgets a loaded program; nothing of it is in flight. What it gives back destroys the graphs,
  /// which takes about as long as building them and may be done by any thread, also with
  /// device_options::instrumented: the program's launch slots are given back here.
  /// Errors   bad_handle for a program that is not loaded, bad_option for one in flight.
  [[nodiscard]] program_graphs unload(gsched::program& p);
  /// Whether a kernel of a loaded program hung: nothing of it can run again.
  [[nodiscard]] bool hangs(program_id p) const noexcept;
  /// Whether a kernel of this process that was given up still runs on the GPU: nothing can be made.
  [[nodiscard]] bool hangs() const noexcept;
  /// Of a loaded program, builds the graphs of operations [first, last), for all lanes that are
  /// open: for segments that begin or end elsewhere than pieces do (gsched::program::align).
  /// Errors   as load; bad_handle for a program that was not loaded, bad_option for no operations.
  void prepare(const gsched::program& p, std::size_t first, std::size_t last);
  /// All of a loaded program, for one lane alone. Programs that are kept whole are built for a lane
  /// with SMs of its own only so.
  void prepare(const gsched::program& p, lane_id lane);
  [[nodiscard]] std::error_code submit(const segment& s) noexcept;
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept;
  [[nodiscard]] std::size_t evict(lane_id lane) noexcept;
  void yield(lane_id lane) noexcept;
  void resume(lane_id lane) noexcept;
  void wait(time_point t) noexcept;
  /// Records an event of this GPU on a stream that holds nothing else, so that it completes at
  /// once, even while lanes hold work. A call of the driver, as those of submit. Returns CUDA's
  /// code.
  [[nodiscard]] std::error_code record(CUevent event) noexcept;
  [[nodiscard]] time_point now() const noexcept;
  [[nodiscard]] const device_limits& limits() const noexcept;

  [[nodiscard]] const gpu& facts() const noexcept;
  [[nodiscard]] const device_statistics& statistics() const noexcept;
  [[nodiscard]] program_memory memory_of(const gsched::program& p) const;
  /// Why the device has ended: one line with CUDA's words and the segment that was running
  /// (program, operations, kernel). Unset while it works.
  [[nodiscard]] const std::optional<std::string>& failure() const noexcept;
  /// Why the last segment that was polled as failed did, in one line; empty if none has.
  [[nodiscard]] const std::string& why_failed() const noexcept;
  /// The stream of a lane, for set-up that has to run there, such as capture.
  [[nodiscard]] CUstream stream_of(lane_id lane) const noexcept;
  /// The SMs that a lane has, which can be more than were asked for.
  [[nodiscard]] sm_count sms_of(lane_id lane) const noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

static_assert(preemptive_device<device>);

} // namespace gsched::cuda
