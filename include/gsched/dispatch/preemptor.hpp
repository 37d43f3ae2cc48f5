// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/device/preemptive_device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/flight.hpp>
#include <gsched/dispatch/lane_feed.hpp>
#include <gsched/dispatch/lane_set.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/pad/exploration.hpp>
#include <gsched/preempt/floor.hpp>
#include <gsched/preempt/forecast.hpp>
#include <gsched/preempt/guard.hpp>
#include <gsched/preempt/queue_bound.hpp>
#include <gsched/preempt/statistics.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace gsched {

/// Decides when best-effort lanes make way, when they are let on, and what may run beside real-time
/// work meanwhile; and tells the device.
///
/// Cost     a decision O(best-effort lanes); no allocation after construction.
/// Threads  one owner; no locking.
template <device Device, accountant Accountant, listener Listener>
class preemptor {
  using feed = lane_feed<Device, Accountant>;

public:
  preemptor(Device& on, feed& lanes, Listener& hears, const dispatch_options& how,
            exploration& beside)
      : device_(on), feed_(lanes), listener_(hears), options_(how), beside_(beside),
        guards_(lanes.apart() && how.preemption.yields),
        guard_(guards_ ? lanes.guarded() : 0, preemptive_device<Device>),
        floor_(how.preemption.floor, how.preemption.floor_window),
        bound_{how.preemption.cut_cost, how.preemption.least_queue,
               std::max(how.high_mark, saturating_add(how.most_quantum, how.most_quantum))} {}

  /// Best-effort work may be submitted to its lanes.
  [[nodiscard]] bool open() const noexcept { return guard_.open(); }
  /// ... and might have been at any time since then.
  [[nodiscard]] bool was_open_since(time_point t) const noexcept {
    return guard_.open() && t >= held_last_;
  }
  /// For how long real-time work was not there, since the last call.
  [[nodiscard]] duration take_open_time() noexcept { return std::exchange(was_open_, {}); }
  /// Best-effort lanes yield to real-time work.
  [[nodiscard]] bool guards() const noexcept { return guards_; }
  /// Calls f(flight) for each best-effort segment that may be running.
  template <class F>
  void for_each_running(F f) noexcept {
    for (std::uint32_t i = 0; i < feed_.guarded(); ++i) {
      if (!guard_.may_run(i)) continue;
      if (const flight* const at = feed_.lanes().oldest(feed_.guarded_place(i))) f(*at);
    }
  }
  /// What is on the lane may run: it is none that has yielded.
  [[nodiscard]] bool may_run(std::uint32_t place) const noexcept {
    const auto lane = feed_.guarded_at(place);
    return !guards_ || !lane || guard_.may_run(*lane);
  }
  /// The group of side lanes that it may go to instead, if any; its copies, where real-time work is
  /// padded.
  [[nodiscard]] std::optional<std::size_t> side() const noexcept {
    if (!guard_.holds() || beside_.current() == 0) return std::nullopt;
    if (beside_.current() > options_.preemption.side.size()) return feed_.copies();
    return feed::first_side + beside_.current() - 1;
  }
  /// Real-time programs are to carry some of it.
  [[nodiscard]] bool pads() const noexcept {
    return guard_.holds() && beside_.current() > options_.preemption.side.size();
  }
  /// What a job's next segment may take on that group's lanes, in time on the whole device: beside
  /// real-time jobs that have so much `left` no more than they, and about a quantum there.
  [[nodiscard]] duration most_on(std::size_t group, duration left, time_point now) noexcept {
    if (group < feed::first_side) return run_to_completion;
    const double ns = static_cast<double>(options_.quantum.count()) * side_speed();
    return std::max(duration{1},
                    std::min(fits_beside(left, now), duration{static_cast<duration::rep>(ns)}));
  }
  /// A segment is at least one operation, and that may be too long.
  [[nodiscard]] bool ends_in_time(const active_job& a, duration left, time_point now) noexcept {
    const duration head = a.is_ending()
                              ? a.head
                              : a.context.list().head_expected(most_on(feed::first_side, left, now),
                                                               flight::max_loose);
    return head <= fits_beside(left, now);
  }
  [[nodiscard]] const preemption_statistics& statistics() const noexcept { return statistics_; }

  /// Before a round of decisions: which classes have jobs that can run. back(flight) is given each
  /// segment that is taken back, and whether its first operation may have run in part; it drops it.
  /// `some_idle`: of best-effort jobs, one at least has nothing in flight.
  template <class Back>
  void update(bool real_time, bool best_effort, bool some_idle, Back back) noexcept {
    if (!guards_ || (!real_time && !real_time_)) return;
    const time_point now = device_.now();
    const bool held = guard_.holds();
    floor_.pass(now, real_time_ && best_effort_, !held);
    beside_.passed(now - last_, real_time_, some_idle_);
    last_ = now;
    some_idle_ = some_idle;
    const bool hold = real_time && !(best_effort && floor_.lets_on());
    if (hold && !held) begin(now, back);
    if (!hold && held) end(now);
    watch(now, best_effort && (held || hold), hold);
    real_time_ = real_time;
    best_effort_ = best_effort;
  }

  /// What the device says of a lane. False if that lane was not asked.
  template <class Back>
  [[nodiscard]] bool hear(const device_event& e, time_point now, Back back) noexcept {
    const std::optional<std::uint32_t> place = feed_.lanes().find(e.lane);
    const std::optional<std::uint32_t> lane = place ? feed_.guarded_at(*place) : std::nullopt;
    if (!lane || !guards_) return false;
    if (e.what == device_event::kind::lane_resumed) {
      guard_.resumed(*lane, now, statistics_);
      return true;
    }
    if (!guard_.is_leaving(*lane)) return false;
    feed_.take_preempted(*place, [&](flight& f, bool may_have_started) {
      ++statistics_.preempted_segments;
      statistics_.undone_operations += f.operations.size() - f.ended;
      back(f, may_have_started);
    });
    return out_of_the_way(*lane, now);
  }

  /// A padded segment has ended that had its lane for so long.
  void landed_padded(const flight& f, duration took) noexcept {
    statistics_.carried += f.carries->expected;
    statistics_.padded_alone += f.expected;
    statistics_.padded_took += took;
  }
  /// A segment has left its lane for good.
  void landed(const flight& f, time_point now) noexcept {
    const std::optional<std::uint32_t> lane = feed_.guarded_at(f.place);
    if (lane)
      beside_.did(0, f.expected, duration::zero());
    else if (feed_.is_side(f) && feed_.lanes().group_of(f.place) != feed_.copies())
      beside_.did(feed_.lanes().group_of(f.place) - feed::first_side + 1, f.expected,
                  now - f.submitted);
    if constexpr (!preemptive_device<Device>) {
      if (lane && guard_.is_leaving(*lane) && feed_.lanes().oldest(f.place) == nullptr)
        static_cast<void>(out_of_the_way(*lane, now));
    }
  }

  /// A best-effort segment was submitted to a lane that leaves SMs.
  void let_reserved() noexcept { ++statistics_.reserved_segments; }
  /// A best-effort segment was submitted to a side lane.
  void let_beside(time_point now) noexcept {
    ++statistics_.side_segments;
    let_on(now);
  }
  /// A real-time segment was submitted that carries so many operations of it.
  void let_within(std::size_t operations, time_point now) noexcept {
    ++statistics_.padded_segments;
    statistics_.carried_operations += operations;
    let_on(now);
  }

  /// Sets how much is queued on best-effort lanes, as real-time jobs are likely to come; and says
  /// what their segments may take, or none if that is as before.
  [[nodiscard]] std::optional<duration> adapt(const arrival_forecast& arrivals) noexcept {
    if (preemptive_device<Device> || !guards_ || !options_.preemption.adaptive) return std::nullopt;
    const time_point now = device_.now();
    if (now < look_again_) return std::nullopt;
    look_again_ = now + bound_.least / 2;
    const duration b = bound_.at([&](duration next) { return arrivals.within(now, next); });
    const duration high = std::min(b, options_.high_mark);
    const double part =
        static_cast<double>(high.count()) / static_cast<double>(options_.high_mark.count());
    const auto low = static_cast<double>(options_.low_mark.count()) * part;
    feed_.lanes().set_marks(feed::best_effort, duration{static_cast<duration::rep>(low)}, high);
    return b / 2; // two of them, so that one runs while the other's notification travels
  }

private:
  /// How fast work runs on the side lane, as a part of its speed on the whole device.
  [[nodiscard]] double side_speed() const noexcept { return beside_.speed(beside_.current()); }
  [[nodiscard]] duration fits_beside(duration left, time_point now) noexcept {
    const duration ahead = left - feed_.under_way(feed::real_time, now);
    const double ns = static_cast<double>(ahead.count()) / options_.preemption.real_time_lanes;
    return duration{static_cast<duration::rep>(ns * side_speed())};
  }

  template <class Back>
  void begin(time_point now, Back back) noexcept {
    lane_set& lanes = feed_.lanes();
    if constexpr (!preemptive_device<Device>)
      feed_.evict([&](const flight& f) { return feed_.guarded_at(f.place).has_value(); },
                  [&](flight& f) {
                    ++statistics_.evicted_segments;
                    back(f, false);
                  });
    was_open_ += now - opened_last_;
    held_last_ = now;
    guard_.hold(
        now, stays(),
        [&](std::uint32_t lane) {
          if constexpr (preemptive_device<Device>)
            device_.yield(lanes.id(feed_.guarded_place(lane)));
        },
        statistics_);
    if constexpr (requires { listener_.on_preempt(now); }) listener_.on_preempt(now);
  }

  void end(time_point now) noexcept {
    opened_last_ = now;
    guard_.let_on(now, stays(), resume(now), statistics_);
    if constexpr (requires { listener_.on_restore(now); }) listener_.on_restore(now);
  }

  bool out_of_the_way(std::uint32_t lane, time_point now) noexcept {
    return guard_.yielded(lane, now, stays(), resume(now), statistics_);
  }

  [[nodiscard]] auto stays() noexcept {
    return [this](std::uint32_t lane) {
      return feed_.lanes().oldest(feed_.guarded_place(lane)) != nullptr;
    };
  }
  [[nodiscard]] auto resume(time_point now) noexcept {
    return [this, now](std::uint32_t lane) {
      const std::uint32_t place = feed_.guarded_place(lane);
      if constexpr (preemptive_device<Device>) device_.resume(feed_.lanes().id(place));
      feed_.lanes().let_on(place, now);
    };
  }

  void let_on(time_point now) noexcept {
    watch(now, true, false);
    watch(now, true, true);
  }
  /// How long best-effort jobs have been waiting with nothing let on, and whether they still are.
  void watch(time_point now, bool waited, bool waits) noexcept {
    if (waited && waits_since_) {
      const duration wait = now - *waits_since_;
      statistics_.longest_wait = std::max(statistics_.longest_wait, wait);
      if (wait >= options_.preemption.starved_after && !told_) {
        told_ = true;
        ++statistics_.starvations;
        if constexpr (requires { listener_.on_starvation(wait, now); })
          listener_.on_starvation(wait, now);
      }
    }
    if (!waited || !waits) {
      waits_since_.reset();
    } else if (!waits_since_) {
      waits_since_ = now;
      told_ = false;
    }
  }

  Device& device_;
  feed& feed_;
  Listener& listener_;
  const dispatch_options& options_;
  exploration& beside_;
  bool guards_;
  guard guard_;
  floor_clock floor_;
  queue_bound bound_;
  preemption_statistics statistics_{};
  bool real_time_ = false;   ///< at the last update
  bool best_effort_ = false; ///< at the last update
  bool some_idle_ = false;   ///< at the last update: best-effort jobs with nothing in flight
  bool told_ = false;        ///< of this wait
  time_point last_{};
  time_point held_last_{};   ///< when best-effort lanes were last told to yield ...
  time_point opened_last_{}; ///< ... and let on
  duration was_open_{};      ///< up to held_last_, and not taken
  time_point look_again_{};
  std::optional<time_point> waits_since_;
};

} // namespace gsched
