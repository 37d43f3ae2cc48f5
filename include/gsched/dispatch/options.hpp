// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/preempt/options.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace gsched {

/// How jobs use the lanes.
enum class lane_use : std::uint8_t {
  shared, ///< jobs borrow a lane while they have work on it
  own,    ///< each job takes the next lane, round robin, like programs with a stream a request
  client  ///< each client has a lane, assigned round robin, like programs with a stream a user
};

/// Which models the dispatcher keeps apart. A job whose model does not fit beside the jobs in
/// flight gets no segment, and the others go on; models are found in the rule by their names.
///
/// Real-time jobs are never refused. Best-effort work that does not fit beside them gets no segment
/// while they are in flight; what is in flight already ends, unless preemption takes it back.
/// Copies and memsets outside programs are not counted and not refused, and neither is the
/// co-runner of a padded program refused, because add_padded has chosen it for that program.
/// Segments of one job are no neighbours of each other.
struct corun_options {
  static constexpr duration default_most_wait = std::chrono::milliseconds{1};

  std::shared_ptr<const corun_rule> rule{}; ///< null: all models run side by side
  /// After this time the others make room for a refused job: from then on no segment starts that
  /// would keep it waiting. Smaller is fairer to models that are kept apart; each change from one
  /// to the other leaves lanes empty for about a segment. run_to_completion: never, so a model can
  /// wait as long as jobs of another one arrive.
  duration most_wait = default_most_wait;
};

/// How the dispatcher feeds the device. The defaults trade about 2% of throughput for a decision
/// every 100 us (docs/decisions.md).
///
/// Units    times are device time. The marks count work that was submitted to a lane and has not
///          ended.
struct dispatch_options {
  static constexpr std::uint32_t default_lanes = 8;
  static constexpr std::uint32_t most_grids = 128; ///< grids that a GPU runs concurrently

  /// length of a segment; a policy's slice may be shorter
  duration quantum = std::chrono::microseconds{100};
  /// The segments of a job double up to this length while no other job waits: fewer cuts, and the
  /// next job waits for a lane no longer than this.
  duration most_quantum = std::chrono::microseconds{800};
  duration low_mark = std::chrono::microseconds{120};  ///< a lane below this mark is filled
  duration high_mark = std::chrono::microseconds{200}; ///< until it reaches this mark
  std::uint32_t lanes = default_lanes; ///< as many as hardware queues, so that none blocks another
  /// Additional lanes, on which work starts only while the work on the GPU leaves a part of it
  /// empty (the accountant's load is below 1): small jobs run on them side by side, and large jobs
  /// stay in the policy's order. Unset: with default_lanes that all jobs share, enough to reach
  /// most_grids or the device's limit; with another number of lanes, none.
  std::optional<std::uint32_t> spare_lanes{};
  lane_options lane{}; ///< options of each lane
  /// in flight at once; two hide the latency of the notification
  std::uint32_t segments_per_job = 2;
  submission how = submission::graph;
  lane_use use = lane_use::shared;
  bool instrumented = false; ///< request block notifications
  /// Evict segments that have not started when the policy wants to preempt. Most useful with few
  /// lanes.
  bool evict_on_preempt = false;
  preemption_options preemption{};
  corun_options corun{};
  /// A segment that is next on a lane that may run is lost if the device reports nothing of it for
  /// this long and for `limit_factor` times its expected time. Its job then fails, its lane gets no
  /// more work until the device reports the segment after all, and its instance is not used again.
  /// run_to_completion: never.
  duration segment_limit = std::chrono::seconds{60};
  std::uint32_t limit_factor = 1000;
  std::size_t max_jobs = std::size_t{1} << 20;     ///< active at once; further jobs are rejected
  std::size_t reserved_jobs = 64;                  ///< created at construction; more on demand
  std::size_t max_segments = std::size_t{1} << 12; ///< in flight at once
  std::size_t reserved_entries = 1024;             ///< waitlist entries created at construction

  /// The number of spare lanes to open on a device with this many lanes in all.
  [[nodiscard]] std::uint32_t spares(std::uint32_t device_lanes) const noexcept {
    if (spare_lanes) return *spare_lanes;
    if (!is_shared() || lanes != default_lanes) return 0;
    return std::max(std::min(device_lanes, most_grids), lanes) - lanes;
  }

  /// Returns itself, or throws bad_option in one line.
  [[nodiscard]] const dispatch_options& checked() const {
    const auto fail = [](const std::string& what) { throw error(errc::bad_option, what); };
    if (quantum <= duration::zero()) fail("quantum: expected more than 0");
    if (most_quantum < quantum) fail("most_quantum: expected at least quantum");
    if (low_mark < duration::zero() || high_mark < low_mark)
      fail("marks: expected 0 <= low_mark <= high_mark");
    if (high_mark == duration::zero()) fail("high_mark: expected more than 0");
    if (lanes == 0) fail("lanes: expected at least 1");
    if (spare_lanes.value_or(0) > 0 && !is_shared())
      fail("spare_lanes: expected lane_use::shared and no real_time_lanes with them");
    if (segment_limit <= duration::zero()) fail("segment_limit: expected more than 0");
    if (limit_factor == 0) fail("limit_factor: expected at least 1");
    if (corun.most_wait < duration::zero()) fail("corun.most_wait: expected at least 0");
    if (segments_per_job == 0) fail("segments_per_job: expected at least 1");
    if (max_jobs == 0 || max_segments == 0 || max_segments > (std::size_t{1} << 20))
      fail("max_jobs, max_segments: expected at least 1 and at most 2^20 segments");
    static_cast<void>(preemption.checked());
    if (!preemption.reserve.empty()) {
      if (use != lane_use::shared) fail("preemption.reserve: expected lane_use::shared with it");
      if (lane.sms.count() > 0 || lane.reserved.count() > 0)
        fail("preemption.reserve: expected a lane of all SMs with it");
    }
    if (preemption.real_time_lanes > 0 && max_segments < 4)
      fail("max_segments: expected at least 4 with real_time_lanes");
    return *this;
  }

private:
  /// Whether all jobs borrow lanes from one group.
  [[nodiscard]] bool is_shared() const noexcept {
    return use == lane_use::shared && preemption.real_time_lanes == 0;
  }
};

/// Sets options with which the dispatcher submits whole requests as soon as they arrive, as a
/// program without a scheduler does. The accountant's overshoot has to be without limit, too.
inline void hold_nothing_back(dispatch_options& o, lane_use use, std::uint32_t lanes) noexcept {
  o.quantum = o.most_quantum = run_to_completion;
  o.low_mark = o.high_mark = run_to_completion;
  o.segments_per_job = 1u << 20;
  o.use = use;
  o.lanes = lanes;
}

} // namespace gsched
