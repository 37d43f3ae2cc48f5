// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_segment.hpp"
#include "device/lane_graphs.hpp"
#include "device/segment_graphs.hpp"
#include "device/spare_executables.hpp"
#include "graph/end_words.hpp"
#include "hung_streams.hpp"
#include "owners.hpp"

#include <gsched/core/sync.hpp>
#include <gsched/cuda/action.hpp>
#include <gsched/cuda/device.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/notification_ring.hpp>
#include <gsched/cuda/partitions.hpp>

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
  int priority = 0; ///< as CUDA counts: the most urgent is the lowest
  std::shared_ptr<partition>
      own;                 ///< its SMs, if they are not all; shared by lanes that leave as many
  std::uint32_t place = 0; ///< of segment_graphs
  std::unique_ptr<lane_graphs> graphs;
  device_segment* oldest = nullptr; ///< of those that have started and not ended
  std::uint32_t held = 0;           ///< of its flights
  std::uint32_t gated = 0;          ///< of those that have started and not ended
  std::uint32_t leaving = 0;        ///< of these, too
  bool waits = false;               ///< while start_held looks: an earlier one stays held
  time_point last_progress{};       ///< when something was last seen to move
  duration stalled{};               ///< since then, time in which something could have moved
  bool yields = false;              ///< from yield to resume
  bool holds = false;               ///< its gates are asked to hold
  bool owes_yielded = false;        ///< the event, until it is polled
  bool owes_resumed = false;        ///< this one, too
  std::uint32_t turn = 0;           ///< which time it yields, 20 bits; never 0 then
  time_point stands_since{};        ///< when a gate was first seen to stand in this turn
  lane_queue flights; ///< accepted and not polled, oldest first; those held are the newest
};

/// Makes a GPU current for the calling thread; its context as well, where the thread has none yet,
/// as the driver's functions need. From the first call on the thread is in the relaxed capture
/// mode: a capture of another thread in global mode would else refuse its queries, and be spoilt by
/// them.
class on_gpu {
public:
  explicit on_gpu(int ordinal) noexcept : here_(ordinal) {
    thread_local bool bound = false; // from the first call on, the runtime keeps it so
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
  /// Of the time between two looks no more counts as stalled: the host may have been stopped.
  static constexpr duration most_stalled_at_once = std::chrono::milliseconds{50};
  static constexpr duration renew_every = std::chrono::microseconds{100};
  /// Segments in flight beyond these are told by the markers of their lanes.
  static constexpr std::size_t most_end_events = 256;
  /// The lease while the owner is in a call of the driver.
  static constexpr duration calling_lease = std::chrono::milliseconds{1};
  /// Lanes that can be given up to a kernel that hangs, and be made anew. The device ends with the
  /// next one.
  static constexpr std::size_t most_given_up = 4;

  explicit state(const device_options& o);
  ~state();
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  /// Lanes of equal options share the graphs, and those that leave SMs the partition.
  struct shared_place {
    sm_count leaves{};
    bool node_priorities = false;
    bool yields = false;
    duration least_operation{};
    std::shared_ptr<partition> sms; ///< null: all
    CUstream upload = nullptr;      ///< of the partition
    std::optional<std::uint32_t> place;
  };

  // Set-up (device.cpp)
  [[nodiscard]] lane_id open_lane(const lane_options& how, std::span<const std::uint32_t> groups);
  void load(gsched::program& p, std::unique_ptr<loaded_program> built);
  [[nodiscard]] std::unique_ptr<loaded_program> build(gsched::program& p);
  [[nodiscard]] std::unique_ptr<loaded_program> unload(gsched::program& p);
  void make_stream(device_lane& l);
  /// The shared place of lanes with such options, made where there is none; null for a lane with
  /// SMs of its own.
  [[nodiscard]] shared_place* find_shared(const lane_options& how, bool node_priorities,
                                          std::span<const std::uint32_t> groups);
  /// For all places, or one lane's.
  void prepare(const gsched::program& p, std::size_t first, std::size_t last,
               std::optional<lane_id> lane = {});
  /// What makes streams or graphs: the device works, and no kernel hangs. `what` for its errors.
  void expect_can_make(const std::string& what) const;
  void expect_works() const;
  /// False if it did not become idle in time.
  [[nodiscard]] bool drain(duration most) noexcept;

  // Submission (device.cpp)
  [[nodiscard]] std::error_code submit(const segment& s) noexcept;
  [[nodiscard]] std::error_code find_graphs(const segment& s, const device_lane& l,
                                            device_segment& f);
  [[nodiscard]] std::error_code check_loose(const segment& s, device_segment& f) const noexcept;
  /// Whether its lane lets it be handed over now.
  [[nodiscard]] static bool may_start(const device_segment& f, const device_lane& l) noexcept;
  [[nodiscard]] bool try_reserve_words(const device_segment& f) noexcept;
  /// Work of a lane that does not yield waits for room in the ring: what lanes that stand keep of
  /// it would never become free.
  void lacks_words() noexcept;
  [[nodiscard]] static bool keeps_words(const device_lane& l) noexcept;
  [[nodiscard]] duration expected_of(const segment& s) const noexcept;
  [[nodiscard]] std::error_code start(device_segment& f, device_lane& l) noexcept;
  [[nodiscard]] std::error_code hand_over(device_segment& f, device_lane& l, bool& partly) noexcept;
  [[nodiscard]] CUresult launch_loose(const device_segment& f, std::size_t i,
                                      device_lane& l) noexcept;
  void start_held() noexcept;
  [[nodiscard]] std::size_t evict(lane_id lane) noexcept;
  [[nodiscard]] std::error_code record(CUevent event) noexcept;

  // Lanes that yield (device_yield.cpp)
  void yield(lane_id lane) noexcept;
  void resume(lane_id lane) noexcept;
  void withdraw(device_segment& f, device_lane& l) noexcept;
  /// Whether nothing of a lane that yields runs any more.
  [[nodiscard]] bool stopped(device_lane& l) noexcept;
  /// Whether work of it runs again, or there is none.
  [[nodiscard]] static bool goes_on(const device_lane& l) noexcept;
  [[nodiscard]] bool turn_pollable(device_lane& l) noexcept;
  [[nodiscard]] std::size_t take_turns(device_lane& l, std::span<device_event> out) noexcept;
  void open_gates() noexcept;
  /// Asks the gates of a lane to hold for its turn, or to pass.
  void ask(device_lane& l) noexcept;
  /// Lets lanes that stand go until the ends of their segments.
  void let_go() noexcept;
  /// Renews the leases of lanes that stand, if other lanes' work moves; counts those that ran out.
  void renew_leases(time_point at) noexcept;
  [[nodiscard]] bool others_move(time_point at) const noexcept;
  /// What a lane runs does not move, and waits for no more urgent lane.
  [[nodiscard]] bool is_stuck(const device_lane& l, time_point at) const noexcept;
  /// Notes which flights are stuck while lanes stand. True if there are none.
  [[nodiscard]] bool see_stuck(time_point at) noexcept;
  /// Counts gates that have ended by themselves. False if there are none.
  bool see_expired(time_point at) noexcept;
  /// A gate has ended by itself. Notes when, for flights that were stuck before.
  void lease_ran_out(time_point at) noexcept;
  /// Of one that has ended: if it was stuck and ended as soon as gates did, its program does not
  /// run beside gates, and they do not hold while it is under way from now on.
  void learn_from(const device_segment& f, time_point at) noexcept;
  /// Whether what has started on a lane can still be expected to end.
  [[nodiscard]] bool moves(const device_lane& l, time_point at) const noexcept;
  /// Of a program's segment, on a lane that has that many.
  [[nodiscard]] sm_count needs_at_once(const device_segment& f, sm_count all) const noexcept;
  /// Whether a lane's segment needs more SMs at once than the gates of so many lanes leave.
  [[nodiscard]] bool needs_more_than_left(const device_segment& f, const device_lane& l,
                                          std::uint32_t holding) const noexcept;
  /// Whether the lane's gates, if they held too, would stand on SMs that a started segment needs.
  [[nodiscard]] bool would_crowd_out(const device_lane& l) const noexcept;

  // Segments that leave (device_yield.cpp)
  void raise(leaving_program& p) noexcept;
  void lower(leaving_program& p) noexcept;
  /// Starts what has waited for flags that are down by now.
  void see_lowered() noexcept;
  /// Of one that has just been seen to have ended.
  void see_end(device_segment& f, device_lane& l) noexcept;
  void end_divergent(const device_segment& f, const preemption_end& end) noexcept;
  /// A segment that begins with that operation is about to start.
  [[nodiscard]] std::error_code begin_anew(leaving_program& p, std::uint32_t first) noexcept;

  // Ends and words (device.cpp)
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept;
  void wait(time_point t) noexcept;
  void rest(time_point t) noexcept;
  [[nodiscard]] bool pollable() noexcept;
  /// Nothing will become pollable without a call of submit or resume.
  [[nodiscard]] bool idle() const noexcept;
  void read_ends() noexcept;
  [[nodiscard]] std::size_t take_words(std::span<device_event> out) noexcept;
  [[nodiscard]] std::size_t take_ends(std::span<device_event> out) noexcept;
  /// The next word of a segment in flight, if one has come.
  [[nodiscard]] std::optional<device_event> try_word() noexcept;
  [[nodiscard]] std::optional<device_event> event_of(const notification& n) noexcept;
  void drop(device_segment& f, device_lane& l) noexcept;

  // Failure (device_failure.cpp)
  /// Every millisecond or so in which nothing moved.
  void check_health(time_point at) noexcept;
  /// The lane's work cannot be expected to move: it stands, or more urgent lanes have work.
  [[nodiscard]] bool is_obstructed(const device_lane& l) const noexcept;
  /// Nothing of a lane has moved for half of the watchdog's time or more.
  void suspect(device_lane& l, time_point at) noexcept;
  void send_pulse(time_point at) noexcept;
  [[nodiscard]] bool pulse_has_come() const noexcept;
  /// Gives up what has started on a lane, and the lane's stream.
  void fail_lane(device_lane& l) noexcept;
  /// The reason names what was at the head of a lane, and a segment that is not accepted yet; or
  /// that segment alone.
  void end_with(std::error_code why, const device_segment* with = nullptr,
                bool alone = false) noexcept;
  [[nodiscard]] std::string describe(std::error_code why, const device_segment* with, bool alone);
  [[nodiscard]] std::string describe(const device_segment& f);
  /// The error that the stream's context has come to, if any.
  [[nodiscard]] std::error_code lasting_error(CUstream s) noexcept;

  [[nodiscard]] time_point now() const noexcept {
    return time_point{
        std::chrono::duration_cast<duration>(std::chrono::steady_clock::now() - made)};
  }
  [[nodiscard]] bool broken() const noexcept { return failed.operator bool(); }

  /// While the owner is in a call of the driver: another thread's call may wait there for a graph
  /// that stands, and keep this one waiting with it.
  class short_leases {
  public:
    explicit short_leases(state& of) noexcept : of_(of) {
      if (of_.standing > 0) of_.set_leases(std::min(of_.lease, calling_lease));
    }
    ~short_leases() {
      if (of_.standing > 0) of_.set_leases(of_.lease);
    }
    short_leases(const short_leases&) = delete;
    short_leases& operator=(const short_leases&) = delete;

  private:
    state& of_;
  };
  /// Runs a call of the driver, with short leases, and adds up how long it took if asked to.
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

  /// Recorded behind segments' graphs; those that no segment has.
  std::vector<event_owner> all_end_events;
  std::vector<CUevent> end_events;
  std::unique_ptr<notification_ring> ring;
  std::unique_ptr<end_words> ends;
  std::unique_ptr<segment_graphs> graphs;
  CUstream set_up = nullptr;
  CUstream urgent = nullptr; ///< for flags and pulses alone
  /// For events of the owner alone. Its priority is the highest, so that it shares no hardware
  /// queue with a lane that is stopped. Nothing is launched on it (docs/cliff.md).
  CUstream events = nullptr;
  std::unique_ptr<lane_graphs> pulse;        ///< its marker runs on `urgent`
  std::unique_ptr<spare_executables> spares; ///< for most_given_up lanes
  CUcontext primary = nullptr;
  CUdeviceptr room = 0; ///< for lane_graphs
  int most_urgent = 0;  ///< as CUDA counts priorities
  /// Places that lanes share: on all SMs, and on all but those that lanes leave.
  std::vector<shared_place> shared;
  std::vector<CUstream> uploads;  ///< of partitions
  std::vector<device_lane> lanes; ///< in place: room for all is there from the start
  device_segment_pool flights;
  held_queue held;                  ///< in order of submission
  std::uint32_t reporting = 0;      ///< started segments whose kernels report
  std::uint32_t lowering = 0;       ///< flags that are not known to be down
  std::uint32_t turns_owed = 0;     ///< lanes' events that were not polled yet
  std::uint32_t standing = 0;       ///< lanes whose gates are asked to hold
  std::uint32_t needing = 0;        ///< started segments that need the SMs of gates
  std::uint32_t yielding_lanes = 0; ///< opened so
  bool words_wanted = false;        ///< by a segment that is held, of a lane that does not yield
  std::uint32_t beat = 0;
  duration lease{};         ///< while the owner is not in the driver
  duration current_lease{}; ///< as the gates have it
  time_point renewed{};
  std::optional<time_point> pulse_sent; ///< since something was first suspected
  bool lost = false;                    ///< something hangs
  std::string why_failed;
  /// For build(), which other threads call: segments that were started.
  sync::atomic<std::uint64_t> activity{0};
  std::optional<device_event> pending; ///< a word that wait has read
  std::uint32_t idle_polls = 0;
  time_point ring_rests_until{}; ///< zero: look at the ring at the next poll
  time_point last_check{};
  std::error_code failed{};
  std::optional<std::string> failure;
};

} // namespace gsched::cuda
