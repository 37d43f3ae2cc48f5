// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_segment.hpp"
#include "device/lane_graphs.hpp"
#include "device/segment_graphs.hpp"
#include "device/spare_executables.hpp"
#include "graph/end/end_words.hpp"
#include "hung_streams.hpp"
#include "owners.hpp"

#include <gsched/core/sync.hpp>
#include <gsched/cuda/action.hpp>
#include <gsched/cuda/device.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/notify/notification_ring.hpp>
#include <gsched/cuda/partition/partitions.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace gsched::cuda {

struct device_lane {
  CUstream stream = nullptr;
  int priority = 0;               ///< CUDA's: lower is more urgent
  std::shared_ptr<partition> own; ///< its SMs, if not all; shared by lanes of equal options
  std::uint32_t place = 0;        ///< of segment_graphs
  std::unique_ptr<lane_graphs> graphs;
  device_segment* oldest = nullptr;   ///< the oldest segment that has started and not ended
  std::uint32_t held = 0;             ///< segments in `held` of the device
  std::uint32_t gated = 0;            ///< running segments with gates
  std::uint32_t preemptible = 0;      ///< running preemptible segments
  bool waits = false;                 ///< in start_held: an earlier segment of the lane stays held
  time_point last_progress{};         ///< time of the last progress seen
  duration stalled{};                 ///< since then, time in which progress was possible
  bool yields = false;                ///< from yield to resume
  bool holds = false;                 ///< its gates are ordered to hold
  bool owes_yielded = false;          ///< lane_yielded is due and not polled
  bool owes_resumed = false;          ///< lane_resumed is due and not polled
  std::uint32_t yield_generation = 0; ///< number of the yield, 20 bits; not 0 while yielding
  time_point closed_since{};          ///< when a closed gate was first seen in this generation
  lane_queue flights; ///< accepted and not polled, oldest first; held ones are the newest
};

/// Makes a GPU current for the calling thread. The first use in a thread also makes its context
/// current, which the driver's functions need, and puts the thread into the relaxed capture mode:
/// otherwise, a capture of another thread in global mode would refuse the queries and be
/// invalidated by them.
class on_gpu {
public:
  explicit on_gpu(int ordinal) noexcept : here_(ordinal) {
    thread_local bool bound = false; // the runtime keeps the context current afterwards
    if (bound) return;
    cudaSetDevice(ordinal);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    bound = true;
  }

private:
  current_gpu here_;
};

struct device::state {
  static constexpr std::uint32_t max_lanes = 128;
  static constexpr duration check_every = std::chrono::milliseconds{1};
  static constexpr duration words_grace = std::chrono::milliseconds{200};
  /// Upper bound of the stalled time between two checks, because the host may have been stopped.
  static constexpr duration most_stalled_at_once = std::chrono::milliseconds{50};
  static constexpr duration renew_every = std::chrono::microseconds{100};
  /// Segments in flight beyond this number use their lane's marker to detect their end.
  static constexpr std::size_t most_end_events = 256;
  /// The lease during a call of the driver by the owner.
  static constexpr duration calling_lease = std::chrono::milliseconds{1};
  /// The number of lanes that can be rebuilt after a kernel hangs. The next one ends the device.
  static constexpr std::size_t max_abandoned = 4;

  explicit state(const device_options& o);
  ~state();
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  /// A place of graphs that lanes of equal options share; those that keep SMs free share a
  /// partition.
  struct shared_place {
    sm_count reserved{};
    bool node_priorities = false;
    bool yields = false;
    duration least_operation{};
    std::shared_ptr<partition> sms; ///< null: all
    CUstream upload = nullptr;      ///< a stream of the partition
    std::optional<std::uint32_t> place;
  };

  // Set-up (device.cpp)
  [[nodiscard]] lane_id open_lane(const lane_options& how, std::span<const std::uint32_t> groups);
  void load(gsched::program& p, std::unique_ptr<loaded_program> built);
  [[nodiscard]] std::unique_ptr<loaded_program> build(gsched::program& p);
  [[nodiscard]] std::unique_ptr<loaded_program> unload(gsched::program& p);
  void make_stream(device_lane& l);
  /// Finds or makes the shared place for a lane's options; null for a lane with SMs of its own.
  [[nodiscard]] shared_place* find_shared(const lane_options& how, bool node_priorities,
                                          std::span<const std::uint32_t> groups);
  /// Builds graphs for all places, or for one lane's.
  void prepare(const gsched::program& p, std::size_t first, std::size_t last,
               std::optional<lane_id> lane = {});
  /// Checks that streams and graphs can be made: the device works, and no kernel hangs. `what`
  /// starts the line of the error.
  void expect_can_make(const std::string& what) const;
  void expect_works() const;
  /// False if the device did not become idle in time.
  [[nodiscard]] bool drain(duration most) noexcept;

  // Submission (device.cpp)
  [[nodiscard]] std::error_code submit(const segment& s) noexcept;
  [[nodiscard]] std::error_code find_graphs(const segment& s, const device_lane& l,
                                            device_segment& f);
  [[nodiscard]] std::error_code check_standalone(const segment& s,
                                                 device_segment& f) const noexcept;
  /// Whether the segment's lane allows submitting it now.
  [[nodiscard]] static bool may_start(const device_segment& f, const device_lane& l) noexcept;
  [[nodiscard]] bool try_reserve_words(const device_segment& f) noexcept;
  /// A segment of a lane that does not yield waits for space in the ring. Releases held lanes that
  /// occupy space, because it would never become free otherwise.
  void lacks_words() noexcept;
  [[nodiscard]] static bool keeps_words(const device_lane& l) noexcept;
  [[nodiscard]] duration expected_of(const segment& s) const noexcept;
  [[nodiscard]] std::error_code start(device_segment& f, device_lane& l) noexcept;
  [[nodiscard]] std::error_code hand_over(device_segment& f, device_lane& l, bool& partly) noexcept;
  [[nodiscard]] CUresult launch_standalone(const device_segment& f, std::size_t i,
                                           device_lane& l) noexcept;
  void start_held() noexcept;
  [[nodiscard]] std::size_t evict(lane_id lane) noexcept;
  [[nodiscard]] std::error_code record(CUevent event) noexcept;

  // Lanes that yield (device_yield.cpp)
  void yield(lane_id lane) noexcept;
  void resume(lane_id lane) noexcept;
  void withdraw(device_segment& f, device_lane& l) noexcept;
  /// Whether no work of a yielding lane runs any more.
  [[nodiscard]] bool stopped(device_lane& l) noexcept;
  /// Whether the lane's work runs again, or there is none.
  [[nodiscard]] static bool goes_on(const device_lane& l) noexcept;
  [[nodiscard]] bool yield_change_pollable(device_lane& l) noexcept;
  [[nodiscard]] std::size_t take_yield_changes(device_lane& l,
                                               std::span<device_event> out) noexcept;
  void open_gates() noexcept;
  /// Orders the gates of a lane to hold for its yield generation, or to pass.
  void order_gates(device_lane& l) noexcept;
  /// Releases all held lanes until the end of their segments.
  void release_held() noexcept;
  /// Renews the leases of held lanes if the work of other lanes makes progress, and counts expired
  /// ones.
  void renew_leases(time_point at) noexcept;
  [[nodiscard]] bool others_move(time_point at) const noexcept;
  /// Whether the lane's work makes no progress and does not wait for a more urgent lane.
  [[nodiscard]] bool is_stuck(const device_lane& l, time_point at) const noexcept;
  /// Marks the segments that are stuck while lanes are held. True if there are none.
  [[nodiscard]] bool see_stuck(time_point at) noexcept;
  /// Counts gates whose lease has expired. False if there are none.
  bool see_expired(time_point at) noexcept;
  /// Records the time at which a gate's lease expired in the segments that were stuck.
  void lease_ran_out(time_point at) noexcept;
  /// Called for a segment that has ended. If it was stuck and ended as soon as a lease expired, its
  /// program does not run beside closed gates; no lane is held while it runs from then on.
  void learn_from(const device_segment& f, time_point at) noexcept;
  /// Whether the running work of a lane can still be expected to end.
  [[nodiscard]] bool moves(const device_lane& l, time_point at) const noexcept;
  /// SMs that a segment of a program needs at once, on a lane with `all` SMs.
  [[nodiscard]] sm_count needs_at_once(const device_segment& f, sm_count all) const noexcept;
  /// Whether a lane's segment needs more SMs at once than the gates of `holding` lanes leave free.
  [[nodiscard]] bool needs_more_than_left(const device_segment& f, const device_lane& l,
                                          std::uint32_t holding) const noexcept;
  /// Whether the lane's gates, if they held too, would occupy SMs that a started segment needs.
  [[nodiscard]] bool would_crowd_out(const device_lane& l) const noexcept;

  // Preemptible segments (device_yield.cpp)
  void raise(preemptible_program& p) noexcept;
  void lower(preemptible_program& p) noexcept;
  /// Starts segments that waited for flags which are down now.
  void see_lowered() noexcept;
  /// Updates the state after the end of a segment was seen.
  void see_end(device_segment& f, device_lane& l) noexcept;
  void end_divergent(const device_segment& f, const preemption_end& end) noexcept;
  /// Called before a segment of the program that begins with operation `first` starts.
  [[nodiscard]] std::error_code begin_anew(preemptible_program& p, std::uint32_t first) noexcept;

  // Ends and words (device.cpp)
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept;
  void wait(time_point t) noexcept;
  void rest(time_point t) noexcept;
  [[nodiscard]] bool pollable() noexcept;
  /// Whether nothing will become pollable without a call of submit or resume.
  [[nodiscard]] bool idle() const noexcept;
  void read_ends() noexcept;
  [[nodiscard]] std::size_t take_words(std::span<device_event> out) noexcept;
  [[nodiscard]] std::size_t take_ends(std::span<device_event> out) noexcept;
  /// The next word of a segment in flight, if there is one.
  [[nodiscard]] std::optional<device_event> try_word() noexcept;
  [[nodiscard]] std::optional<device_event> event_of(const notification& n) noexcept;
  void drop(device_segment& f, device_lane& l) noexcept;

  // Failure (device_failure.cpp)
  /// Runs about every millisecond without progress.
  void check_health(time_point at) noexcept;
  /// Whether the lane's work cannot make progress: it is held, or more urgent lanes have work.
  [[nodiscard]] bool is_obstructed(const device_lane& l) const noexcept;
  /// Called when a lane has made no progress for at least half of the watchdog's time.
  void suspect(device_lane& l, time_point at) noexcept;
  void send_pulse(time_point at) noexcept;
  [[nodiscard]] bool pulse_has_come() const noexcept;
  /// Abandons the running work of a lane, and its stream.
  void fail_lane(device_lane& l) noexcept;
  /// Ends the device. The reason names the segments at the head of the lanes, and `with`, which may
  /// not be accepted yet; or `with` only, if `alone`.
  void end_with(std::error_code why, const device_segment* with = nullptr,
                bool alone = false) noexcept;
  [[nodiscard]] std::string describe(std::error_code why, const device_segment* with, bool alone);
  [[nodiscard]] std::string describe(const device_segment& f);
  /// The sticky error of the stream's context, if any.
  [[nodiscard]] std::error_code lasting_error(CUstream s) noexcept;

  [[nodiscard]] time_point now() const noexcept {
    return time_point{
        std::chrono::duration_cast<duration>(std::chrono::steady_clock::now() - made)};
  }
  [[nodiscard]] bool broken() const noexcept { return failed.operator bool(); }

  /// Shortens the leases during a call of the driver: another thread may wait in the driver for a
  /// held graph, and make this call wait too.
  class short_leases {
  public:
    explicit short_leases(state& of) noexcept : of_(of) {
      if (of_.holding_lanes > 0) of_.set_leases(std::min(of_.lease, calling_lease));
    }
    ~short_leases() {
      if (of_.holding_lanes > 0) of_.set_leases(of_.lease);
    }
    short_leases(const short_leases&) = delete;
    short_leases& operator=(const short_leases&) = delete;

  private:
    state& of_;
  };
  /// Makes a call of the driver with short leases, and measures its time if enabled.
  template <class Call>
  [[nodiscard]] auto call_driver(Call call) noexcept {
    const short_leases leases(*this);
    const auto from = options.time_driver ? std::chrono::steady_clock::now()
                                          : std::chrono::steady_clock::time_point{};
    const auto r = call();
    if (options.time_driver) {
      const auto took = std::chrono::steady_clock::now() - from;
      statistics.driver_ns += static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
    }
    return r;
  }
  void set_leases(duration d) noexcept;

  device_options options;
  gpu facts;
  const driver_functions& cu;
  std::chrono::steady_clock::time_point made = std::chrono::steady_clock::now();
  device_limits limits{};
  device_statistics statistics{};

  /// Events to record behind segments' graphs; end_events are the free ones.
  std::vector<event_owner> all_end_events;
  std::vector<CUevent> end_events;
  std::unique_ptr<notification_ring> ring;
  std::unique_ptr<end_words> ends;
  std::unique_ptr<segment_graphs> graphs;
  CUstream set_up = nullptr;
  CUstream urgent = nullptr; ///< for flags and pulses only
  /// For the owner's events only. Its priority is the highest, so that it shares no hardware queue
  /// with a stopped lane. Nothing is launched on it (docs/research/cliff.md).
  CUstream events = nullptr;
  std::unique_ptr<lane_graphs> pulse;        ///< its marker runs on `urgent`
  std::unique_ptr<spare_executables> spares; ///< for max_abandoned lanes
  CUcontext primary = nullptr;
  CUdeviceptr room = 0; ///< scratch memory for lane_graphs
  int most_urgent = 0;  ///< CUDA's highest priority
  /// Places that lanes share: on all SMs, and on all but the free ones of such lanes.
  std::vector<shared_place> shared;
  std::vector<CUstream> uploads;  ///< streams of partitions
  std::vector<device_lane> lanes; ///< stable addresses: reserved for max_lanes
  device_segment_pool flights;
  held_queue held;                      ///< in order of submission
  std::uint32_t reporting = 0;          ///< started segments whose kernels report
  std::uint32_t lowering = 0;           ///< flags that are being lowered
  std::uint32_t yield_changes_owed = 0; ///< events of lanes that are due and not polled
  std::uint32_t holding_lanes = 0;      ///< lanes whose gates are ordered to hold
  std::uint32_t needing = 0;            ///< started segments that need the SMs of gates
  std::uint32_t yielding_lanes = 0;     ///< lanes opened with lane_options::yields
  bool words_wanted = false; ///< a held segment of a lane that does not yield needs ring space
  std::uint32_t beat = 0;
  duration lease{};         ///< outside of calls of the driver
  duration current_lease{}; ///< the gates' current lease
  time_point renewed{};
  std::optional<time_point> pulse_sent; ///< set while a lane is suspected to hang
  bool lost = false;                    ///< a kernel hangs
  std::string why_failed;
  /// Number of started segments. Read by build() on other threads.
  sync::atomic<std::uint64_t> activity{0};
  std::optional<device_event> pending; ///< a word that wait() has read
  std::uint32_t idle_polls = 0;
  time_point ring_rests_until{}; ///< zero: read the ring at the next poll
  time_point last_check{};
  std::error_code failed{};
  std::optional<std::string> failure;
};

} // namespace gsched::cuda
