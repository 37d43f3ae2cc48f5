// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/limits.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>

namespace gsched {

/// How a segment is submitted to the hardware.
enum class submission : std::uint8_t {
  graph,   ///< one launch of a short graph; smallest gap between its operations
  launches ///< one launch for each operation
};

/// Consecutive operations of one job, dispatched as one unit.
struct segment {
  segment_id id{};
  job_id owner{};
  lane_id lane{};
  submission how = submission::graph;
  bool instrumented = false; ///< its kernels report block starts and ends
  /// with `first`, identifies the range, so that devices can reuse graphs
  program_id program = no_program;
  std::uint32_t first = 0;
  std::span<const operation* const> operations{}; ///< valid until the end of the segment was polled
};

/// An event that a device reports.
struct device_event {
  enum class kind : std::uint8_t {
    segment_done,
    segment_failed,
    blocks_started, ///< instrumented segments only
    blocks_done,
    /// it was preempted; this and the next two come from a preemptive_device only
    segment_preempted,
    lane_yielded, ///< no work of `lane` runs any more
    lane_resumed, ///< work of `lane` runs again
  };
  kind what = kind::segment_done;
  std::uint8_t blocks = 0; ///< size of the group, at most 16
  std::uint16_t sm = 0;
  /// index within the segment; of a preempted segment: the number of ended operations
  std::uint32_t operation = 0;
  segment_id segment{};
  lane_id lane{};    ///< of lane_yielded and lane_resumed only
  bool lost = false; ///< of segment_failed: it may still run and use its memory
};

/// The limits of a device.
struct device_limits {
  architecture_limits sm{}; ///< limits of one SM
  sm_count sms{};           ///< SMs of the whole device
  std::uint32_t lanes = 0;  ///< largest number of open lanes
};

/// Options of a lane.
struct lane_options {
  int priority = 0;    ///< larger values run first
  sm_count sms{};      ///< a partition of this many SMs; zero: all SMs
  bool yields = false; ///< the caller will yield this lane: see preemptive_device
  sm_count reserved{}; ///< SMs that the lane leaves unused, at least so many (D7); zero: none
  /// When a program is loaded, the device prepares it for this lane only if one of its kernels has
  /// at least this expected time. The lane runs other programs too; the device then may prepare
  /// them in submit.
  duration least_operation{};

  /// Returns itself, or throws bad_option in one line. For devices.
  [[nodiscard]] const lane_options& checked() const {
    if (sms.count() > 0 && reserved.count() > 0)
      throw error(errc::bad_option, "lane: sms " + std::to_string(sms.count()) + " and reserved " +
                                        std::to_string(reserved.count()) +
                                        ", expected one of the two at most");
    return *this;
  }
};

/// Runs segments and is the only source of time. A model also keeps:
///  D1 lane order    segments of one lane start in order, each after the previous one has ended.
///  D2 completeness  each accepted segment is polled exactly once, as done or failed, unless it is
///                   evicted.
///  D3 block order   blocks_started and blocks_done of a segment are polled before its end.
///  D4 time          now() never decreases; wait(t) returns at the first pollable event or at t.
///  D5 hot path      submit, poll, evict and now neither allocate, lock nor throw once programs are
///                   loaded.
///  D6 eviction      evict(lane) withdraws segments that have not started, newest first, and
///                   returns their number; they are never polled.
///  D7 partitions    a lane with `sms` runs on at least that many SMs, and no other lane with `sms`
///                   or `reserved` runs on them. A lane with `reserved` runs on all SMs except
///                   those of lanes with `sms` and the first SMs, at least `reserved` of them. Of
///                   two lanes with `reserved`, the one that reserves more runs on no SM that the
///                   other reserves. open_lane refuses what the SMs cannot provide, and both
///                   options together.
/// The caller keeps the operations of a segment in place until its end was polled.
template <class D>
concept device = requires(D d, const D c, const segment& s, std::span<device_event> out,
                          time_point t, lane_id lane, program& p, const lane_options& how) {
  { d.open_lane(how) } -> std::same_as<lane_id>; // set-up: may throw gsched::error
  { d.load(p) } -> std::same_as<void>;           // set-up: sets the program's id
  { d.submit(s) } noexcept -> std::same_as<std::error_code>;
  { d.poll(out) } noexcept -> std::same_as<std::size_t>;
  { d.evict(lane) } noexcept -> std::same_as<std::size_t>;
  { d.wait(t) } noexcept -> std::same_as<void>;
  { c.now() } noexcept -> std::same_as<time_point>;
  { c.limits() } noexcept -> std::same_as<const device_limits&>;
};

} // namespace gsched
