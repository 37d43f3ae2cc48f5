// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/device/preemptive_device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/detail/class_load.hpp>
#include <gsched/dispatch/detail/flight.hpp>
#include <gsched/dispatch/detail/lane_feed.hpp>
#include <gsched/dispatch/detail/lane_set.hpp>
#include <gsched/dispatch/detail/reservation.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/preempt/floor.hpp>
#include <gsched/preempt/guard.hpp>
#include <gsched/preempt/queue_bound.hpp>
#include <gsched/preempt/statistics.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace gsched {

/// The limits that class isolation sets on the next segment of a job.
struct segment_terms {
  /// of best-effort lanes: index of the number of SMs that it leaves unused
  std::size_t alternate = 0;
  duration most = run_to_completion; ///< longest expected time of the segment
  bool alone = false;                ///< no segment is queued behind it on its lane
  bool is_long = false;
};

/// Limits the delay of real-time work by best-effort work: decides when best-effort lanes yield and
/// resume, what may run beside real-time work meanwhile, and how many SMs long kernels leave
/// unused.
///
/// Cost     a decision O(best-effort lanes); no allocation after construction.
/// Threads  one owner; no locking.
template <device Device, accountant Accountant, listener Listener>
class class_isolation {
  using feed = lane_feed<Device, Accountant>;

public:
  class_isolation(Device& on, feed& lanes, Listener& listens, const dispatch_options& how,
                  class_load& load)
      : device_(on), feed_(lanes), listener_(listens), options_(how), load_(load),
        guards_(lanes.apart() && how.preemption.yields),
        guard_(guards_ ? lanes.guarded() : 0, preemptive_device<Device>),
        floor_(how.preemption.floor, how.preemption.floor_window),
        bound_{how.preemption.cut_cost, how.preemption.least_queue,
               std::max(how.high_mark, saturating_add(how.most_quantum, how.most_quantum))} {}

  [[nodiscard]] const preemption_statistics& statistics() const noexcept { return statistics_; }

  // Before a round of decisions -----------------------------------------------------------------

  /// Makes best-effort lanes yield or resume, according to the active jobs. back(flight,
  /// may_have_started) is called for each segment that is taken back, and drops it. Returns true if
  /// jobs that were passed over may continue. Requires lanes of their own for real-time jobs.
  template <class Back>
  [[nodiscard]] bool update(Back back) noexcept {
    yield_or_resume(back);
    if (guards_ && guard_.open()) load_.reserve().disturb();
    const duration before = std::exchange(left_, load_.real_time_left());
    return guard_.open() || left_ > before;
  }

  /// Sets the marks of best-effort lanes and the length of their segments, according to how likely
  /// real-time jobs are to arrive.
  void adapt() noexcept {
    if (preemptive_device<Device> || !guards_ || !options_.preemption.adaptive) return;
    const time_point now = device_.now();
    if (now < look_again_) return;
    look_again_ = now + bound_.least / 2;
    const duration b = bound_.at([&](duration next) { return load_.arrivals().within(now, next); });
    const duration high = std::min(b, options_.high_mark);
    const double part =
        static_cast<double>(high.count()) / static_cast<double>(options_.high_mark.count());
    const auto low = static_cast<double>(options_.low_mark.count()) * part;
    feed_.lanes().set_marks(feed::best_effort, duration{static_cast<duration::rep>(low)}, high);
    // two segments: one runs during the notification of the other
    load_.set_most_best_effort(b / 2);
  }

  // A decision ----------------------------------------------------------------------------------

  /// The group of lanes that best-effort jobs may use now: their own, a side lane, or the lane for
  /// copies while real-time work is padded; none while they have to wait.
  [[nodiscard]] std::optional<std::size_t> best_effort_group() const noexcept {
    if (guard_.open()) return feed::best_effort;
    const std::size_t current = load_.beside().current();
    if (!guard_.holds() || current == 0) return std::nullopt;
    if (current > options_.preemption.side.size()) return feed_.copies();
    return feed::first_side + current - 1;
  }
  /// Whether real-time programs are to carry best-effort work.
  [[nodiscard]] bool pads() const noexcept {
    return guard_.holds() && load_.beside().current() > options_.preemption.side.size();
  }

  /// The limits for a job's next segment. Programs with long kernels leave SMs to real-time work,
  /// other programs do not, and copies go to the lane of the job's programs.
  [[nodiscard]] segment_terms terms_for(active_job& a, std::size_t group, time_point now) noexcept {
    reservation& reserve = load_.reserve();
    segment_terms t;
    if (group >= feed::first_side) t.most = most_beside(now);
    if (group != feed::best_effort || !reserve.bounds() || class_load::is_real_time(a)) return t;
    program_id next = no_program;
    if (a.is_ending())
      next = a.remainders.back().program;
    else if (const auto head = a.context.list().head(0); head && head->graph != nullptr)
      next = head->graph->id();
    const std::uint32_t model = a.kind->number;
    if (next == no_program && a.flights > 0)
      return {a.reserve, run_to_completion, false, a.reserve > 0};
    if (next == no_program ? !reserve.is_long_model(model) : !reserve.is_long(next)) return t;
    // A real-time job is expected before the job's in-flight work and this segment have ended.
    const duration until = a.head * static_cast<duration::rep>(a.flights + 1);
    const bool near =
        load_.active(service_class::real_time) > 0 || load_.arrivals().is_near(now, until);
    t.is_long = reserve.on();
    if (reserve.on()) t.alternate = reserve.alternate_for(model, near);
    if (near && next != no_program) {
      t.most = options_.preemption.long_operation;
      t.alone = true;
    }
    return t;
  }

  /// Whether the job's next segment may be submitted within these limits. If not, the in-flight
  /// work of the job or real-time work has to end first; the end of the job's own work brings the
  /// job back to the policy.
  [[nodiscard]] bool admits(active_job& a, std::size_t group, const segment_terms& t,
                            time_point now) noexcept {
    if (!a.may_go_to(group, feed::first_side)) return false;
    if (group == feed_.copies()) return a.has_copies();
    if (group >= feed::first_side) return ends_in_time(a, t.most, now);
    return group != feed::best_effort || a.flights == 0 || (!t.alone && a.reserve == t.alternate);
  }

  // Submissions and completions ---------------------------------------------------------------

  /// A segment of a job is about to be counted as in flight. `padded`: it carries best-effort work.
  void submitting(const active_job& a, bool padded, time_point now) noexcept {
    if (load_.reserve().learns()) follow(a, padded, now);
  }
  /// A segment was submitted to a lane of that group.
  void submitted(active_job& a, const flight& f, std::size_t group, const segment_terms& t,
                 time_point now) noexcept {
    a.reserve = group == feed::best_effort ? feed_.reserve_of(f.place) : 0;
    a.alone = t.alone;
    if (a.reserve > 0) ++statistics_.reserved_segments;
    if (feed_.is_side(f)) {
      ++a.side_flights;
      if (group != feed_.copies()) {
        ++statistics_.side_segments;
        best_effort_ran(now);
      }
    }
    a.dispatched_at(group, load_.beside().epoch());
  }
  /// A padded real-time segment was submitted that carries this many best-effort operations.
  void submitted_padded(std::size_t operations, time_point now) noexcept {
    ++statistics_.padded_segments;
    statistics_.carried_operations += operations;
    best_effort_ran(now);
  }

  /// A segment has left its lane. `took`: its time on the lane, if known.
  void completed(const flight& f, bool done, std::optional<duration> took,
                 time_point now) noexcept {
    const std::optional<std::uint32_t> lane = feed_.guarded_at(f.place);
    reservation& reserve = load_.reserve();
    if (done && took && lane && reserve.is_long(f.program)) {
      const bool undisturbed = guard_.open() && now - *took >= held_last_;
      reserve.did(f.owner->kind->number, feed_.reserve_of(f.place), f.expected,
                  undisturbed ? took : std::nullopt, f.last);
    }
    if (lane)
      load_.beside().did(0, f.expected, duration::zero());
    else if (feed_.is_side(f) && feed_.lanes().group_of(f.place) != feed_.copies())
      load_.beside().did(feed_.lanes().group_of(f.place) - feed::first_side + 1, f.expected,
                         now - f.submitted);
    if constexpr (!preemptive_device<Device>) {
      if (lane && guard_.is_yielding(*lane) && feed_.lanes().oldest(f.place) == nullptr)
        static_cast<void>(yielded(*lane, now));
    }
  }
  /// A padded segment has ended; `took` is its time on the lane.
  void completed_padded(const flight& f, duration took) noexcept {
    statistics_.carried += f.carries->expected;
    statistics_.padded_alone += f.expected;
    statistics_.padded_took += took;
  }

  /// Handles lane_yielded or lane_resumed; `back` as for update(). Returns false if the lane was
  /// not asked to yield.
  template <class Back>
  [[nodiscard]] bool lane_event(const device_event& e, time_point now, Back back) noexcept {
    const std::optional<std::uint32_t> place = feed_.lanes().find(e.lane);
    const std::optional<std::uint32_t> lane = place ? feed_.guarded_at(*place) : std::nullopt;
    if (!lane || !guards_) return false;
    if (e.what == device_event::kind::lane_resumed) {
      guard_.resumed(*lane, now, statistics_);
      return true;
    }
    if (!guard_.is_yielding(*lane)) return false;
    feed_.take_preempted(*place, [&](flight& f, bool may_have_started) {
      ++statistics_.preempted_segments;
      statistics_.undone_operations += f.operations.size() - f.ended;
      back(f, may_have_started);
    });
    return yielded(*lane, now);
  }

  /// Whether work on the lane may run, because the lane has not yielded.
  [[nodiscard]] bool may_run(std::uint32_t place) const noexcept {
    const auto lane = feed_.guarded_at(place);
    return !guards_ || !lane || guard_.may_run(*lane);
  }
  /// Whether a best-effort job may evict segments that have not started on a guarded lane.
  [[nodiscard]] bool may_evict(const flight& f) const noexcept {
    if (!feed_.apart() || !feed_.guarded_at(f.place)) return true;
    return load_.active(service_class::real_time) == 0 && guard_.open();
  }

private:
  template <class Back>
  void yield_or_resume(Back back) noexcept {
    const bool real_time = load_.active(service_class::real_time) > 0;
    const bool best_effort = load_.active(service_class::best_effort) > 0;
    if (!guards_ || (!real_time && !real_time_)) return;
    const time_point now = device_.now();
    const bool held = guard_.holds();
    floor_.pass(now, real_time_ && best_effort_, !held);
    load_.beside().passed(now - last_, real_time_, some_idle_);
    last_ = now;
    some_idle_ = load_.some_best_effort_idle();
    const bool hold = real_time && !(best_effort && floor_.lets_on());
    if (hold && !held) begin(now, back);
    if (!hold && held) end(now);
    watch(now, best_effort && (held || hold), hold);
    real_time_ = real_time;
    best_effort_ = best_effort;
  }

  /// Real-time work has arrived: makes best-effort lanes yield.
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
    guard_.release(now, stays(), resume(now), statistics_);
    if constexpr (requires { listener_.on_restore(now); }) listener_.on_restore(now);
  }
  bool yielded(std::uint32_t lane, time_point now) noexcept {
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
      feed_.lanes().resumed(place, now);
    };
  }

  void best_effort_ran(time_point now) noexcept {
    watch(now, true, false);
    watch(now, true, true);
  }
  /// Measures how long best-effort jobs have waited with nothing submitted, and reports starvation.
  void watch(time_point now, bool waited, bool waits) noexcept {
    if (waited && waits_since_) {
      const duration wait = now - *waits_since_;
      statistics_.longest_wait = std::max(statistics_.longest_wait, wait);
      if (wait >= options_.preemption.starved_after && !reported_) {
        reported_ = true;
        ++statistics_.starvations;
        if constexpr (requires { listener_.on_starvation(wait, now); })
          listener_.on_starvation(wait, now);
      }
    }
    if (!waited || !waits) {
      waits_since_.reset();
    } else if (!waits_since_) {
      waits_since_ = now;
      reported_ = false;
    }
  }

  /// The speed of work on the side lane, as a fraction of its speed on the whole device.
  [[nodiscard]] double side_speed() const noexcept {
    return load_.beside().speed(load_.beside().current());
  }
  /// The longest work that ends on the side lane before the remaining real-time work.
  [[nodiscard]] duration fits_beside(time_point now) noexcept {
    const duration ahead = load_.real_time_left() - feed_.under_way(feed::real_time, now);
    const double ns = static_cast<double>(ahead.count()) / options_.preemption.real_time_lanes;
    return duration{static_cast<duration::rep>(ns * side_speed())};
  }
  /// The longest segment on a side lane, in time on the whole device: no longer than the real-time
  /// work beside it, and about a quantum on the side lane.
  [[nodiscard]] duration most_beside(time_point now) noexcept {
    const double ns = static_cast<double>(options_.quantum.count()) * side_speed();
    return std::max(duration{1},
                    std::min(fits_beside(now), duration{static_cast<duration::rep>(ns)}));
  }
  /// Checks that the segment ends in time: it has at least one operation, which may take too long.
  [[nodiscard]] bool ends_in_time(const active_job& a, duration most, time_point now) noexcept {
    const duration head =
        a.is_ending() ? a.head : a.context.list().measure(most, flight::max_loose).expected;
    return head <= fits_beside(now);
  }

  /// If a real-time job starts with this segment, the reservation measures the time that the job
  /// loses to the work that runs now. Other work submitted beside it ends the measurement.
  void follow(const active_job& a, bool padded, time_point now) noexcept {
    reservation& reserve = load_.reserve();
    if (!class_load::is_real_time(a)) {
      if (guards_) reserve.disturb();
      return;
    }
    if (padded || load_.beside().current() != 0) return reserve.disturb();
    lane_set& lanes = feed_.lanes();
    for (std::uint32_t i = 0; i < lanes.lanes(feed::real_time); ++i) {
      const std::uint32_t place = lanes.first(feed::real_time) + i;
      const flight* const oldest = lanes.oldest(place);
      if (oldest == nullptr || (oldest->owner == &a && lanes.newest(place)->owner == &a)) continue;
      // jobs on one lane run one after another
      if (lanes.lanes(feed::real_time) > 1) reserve.disturb();
      return;
    }
    if (a.dispatched) return;
    reservation::running found;
    for (std::uint32_t i = 0; i < feed_.guarded(); ++i) {
      const flight* const r = guard_.may_run(i) ? lanes.oldest(feed_.guarded_place(i)) : nullptr;
      if (r == nullptr) continue;
      if (!reserve.is_long(r->program)) {
        found.add_other();
        continue;
      }
      const std::uint32_t model = r->owner->kind->number;
      const std::size_t alternate = feed_.reserve_of(r->place);
      const time_point since = std::max(r->submitted, lanes.last_end(r->place));
      found.add_long(model, alternate, reserve.left_of(model, alternate, r->expected, now - since),
                     r->last);
    }
    reserve.began(a.id, a.kind->number, found, std::exchange(was_open_, {}));
  }

  Device& device_;
  feed& feed_;
  Listener& listener_;
  const dispatch_options& options_;
  class_load& load_;
  bool guards_; ///< best-effort lanes yield to real-time work
  guard guard_;
  floor_clock floor_;
  queue_bound bound_;
  preemption_statistics statistics_{};
  bool real_time_ = false;   ///< at the last update
  bool best_effort_ = false; ///< at the last update
  bool some_idle_ = false;   ///< at the last update: some best-effort job has nothing in flight
  bool reported_ = false;    ///< whether this wait was reported as starvation
  duration left_{};          ///< real-time work left at the last update
  time_point last_{};
  time_point held_last_{};   ///< when best-effort lanes last had to yield
  time_point opened_last_{}; ///< when they last resumed
  duration was_open_{};      ///< up to held_last_, and not used
  time_point look_again_{};
  std::optional<time_point> waits_since_;
};

} // namespace gsched
