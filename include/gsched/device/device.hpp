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

/// How a segment reaches the hardware.
enum class submission : std::uint8_t {
  graph,   ///< one launch of a short graph: the gap between its operations is the smallest
  launches ///< one launch an operation
};

/// Consecutive operations of one job that are dispatched as one unit.
struct segment {
  segment_id id{};
  job_id owner{};
  lane_id lane{};
  submission how = submission::graph;
  bool instrumented = false;       ///< its kernels report their blocks
  program_id program = no_program; ///< with `first`: names the range, so graphs can be pooled
  std::uint32_t first = 0;
  std::span<const operation* const> operations{}; ///< valid until its end was polled
};

struct device_event {
  enum class kind : std::uint8_t {
    segment_done,
    segment_failed,
    blocks_started, ///< instrumented segments only
    blocks_done,
    segment_preempted, ///< it has left: see preemptive_device, which alone says these three
    lane_yielded,      ///< nothing of `lane` runs any more
    lane_resumed,      ///< work of `lane` runs again
  };
  kind what = kind::segment_done;
  std::uint8_t blocks = 0; ///< in the group, at most 16
  std::uint16_t sm = 0;
  std::uint32_t operation = 0; ///< within the segment; of one preempted: how many have ended
  segment_id segment{};
  lane_id lane{};    ///< of lane_yielded and lane_resumed alone
  bool lost = false; ///< of segment_failed: it may run yet, and use its memory at any time
};

struct device_limits {
  architecture_limits sm{}; ///< of one SM
  sm_count sms{};           ///< of the whole device
  std::uint32_t lanes = 0;  ///< that can be opened
};

struct lane_options {
  int priority = 0;    ///< larger runs first
  sm_count sms{};      ///< a partition of that many SMs; zero is all of them
  bool yields = false; ///< yield() will be called for it: see preemptive_device
  sm_count leaves{};   ///< a partition of all SMs but at least that many (D7); zero: none is left
  /// Only programs with a kernel of at least that expected time are prepared for the lane when they
  /// are loaded. It runs other programs too; the device may have to prepare them in submit.
  duration least_operation{};

  /// Itself, or throws bad_option in one line. For devices.
  [[nodiscard]] const lane_options& checked() const {
    if (sms.count() > 0 && leaves.count() > 0)
      throw error(errc::bad_option, "lane: sms " + std::to_string(sms.count()) + " and leaves " +
                                        std::to_string(leaves.count()) +
                                        ", expected one of the two at most");
    return *this;
  }
};

/// Runs segments, and is the one part that knows the time. A model also keeps:
///  D1 lane order    segments of one lane start in order, each after the one before has ended.
///  D2 completeness  each accepted segment is polled once as done or failed, unless evicted.
///  D3 block order   blocks_started and blocks_done of a segment are polled before its end.
///  D4 time          now() never falls; wait(t) returns at the first pollable event or at t.
///  D5 hot path      submit, poll, evict and now neither allocate, lock nor throw once loaded.
///  D6 eviction      evict(lane) withdraws segments that have not started, newest first, and
///                   says how many; they are never polled.
///  D7 partitions    a lane with `sms` runs on at least so many SMs, and no other lane with `sms`
///  or
///                   `leaves` runs on them. A lane with `leaves` runs on all SMs except those of
///                   lanes with `sms` and the first ones, at least so many; of two lanes with
///                   `leaves`, the one that leaves more runs on no SM that the other leaves.
///                   open_lane refuses what the SMs cannot serve, and both options together.
/// The caller owes: a segment's operations stay in place until its end was polled.
// Version 14 of the formatter takes compound requirements apart.
// clang-format off
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
// clang-format on

} // namespace gsched
