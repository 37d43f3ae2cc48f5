// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/flight.hpp>
#include <gsched/dispatch/guest_life.hpp>
#include <gsched/dispatch/lane_feed.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/preemptor.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/policy/policy.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace gsched {

/// What comes back from a dispatcher's device, and what becomes of the jobs whose segments those
/// were.
///
/// Cost     an event O(1); no allocation.
/// Threads  one owner; no locking.
template <policy Policy, device Device, accountant Accountant, listener Listener>
class landings : public guest_life<Policy, Device, Listener> {
  using life = guest_life<Policy, Device, Listener>;

protected:
  using feed = lane_feed<Device, Accountant>;
  using life::beside_;
  using life::device_;
  using life::device_failed;
  using life::listener_;
  using life::models_;
  using life::options_;
  using life::policy_;
  using life::reserve_;
  using life::settle;
  using life::statistics_;
  using life::wake;

public:
  landings(Device& on, Policy& order, Accountant& account, Listener& hears,
           const dispatch_options& how)
      : life(on, order, hears, how), feed_(on, account, options_),
        preempt_(on, feed_, hears, options_, beside_) {}

protected:
  /// Hears all that the device has to report; false if that is nothing.
  bool hear() noexcept {
    std::array<device_event, 64> events;
    bool any = false;
    for (;;) {
      const std::size_t n = device_.poll(events);
      if (n == 0) return any;
      any = true;
      const time_point now = device_.now();
      for (std::size_t i = 0; i < n; ++i) take(events[i], now);
    }
  }

  /// A segment has left the device, and the rest of it is to be dispatched again.
  void take_back(flight& f, bool may_have_started, time_point now) noexcept {
    active_job& a = *f.owner;
    if (std::exchange(a.in_policy, false)) policy_.erase(a); // its facts are about to change
    const std::uint32_t ended = f.preempted ? f.ended : 0;
    const auto left = f.operations.subspan(ended);
    if (f.preempted) {
      listener_.on_segment_end(a, f.id, now);
      statistics_.operations += ended;
      if (may_have_started) {
        a.forget_remainder(f.program, f.first);
        a.keep_remainder(f.program, f.first + ended, left);
      }
    } else {
      ++statistics_.evicted_segments;
    }
    if (!f.remainder) {
      a.context.list().done(f.stream, ended);
      a.context.list().undo(f.stream, left.size());
      a.kind->estimate.undone(*a.progress, f.program, f.first + ended, left);
    }
    if (f.carries != nullptr) {
      active_job& guest = *f.carries->owner;
      this->turn_back(*f.carries);
      drop(*f.carries, false, now);
      settle(guest, now);
    }
    drop(f, false, now);
    settle(a, now);
  }
  [[nodiscard]] auto back_at(time_point now) noexcept {
    return [this, now](flight& f, bool may_have_started) { take_back(f, may_have_started, now); };
  }

  /// The device has not reported a segment within its limit. What is behind it is dispatched again,
  /// if the device has not started it.
  void lose(flight& f, time_point now) noexcept {
    active_job& a = *f.owner;
    const std::uint32_t place = f.place;
    const segment_id id = f.id;
    ++statistics_.lost_segments;
    feed_.lanes().lose(place, id); // first: what is taken back goes elsewhere
    if (feed_.lanes().newest(place) != &f)
      feed_.evict(place, [&](flight& behind) { take_back(behind, false, now); });
    if (!a.is_ending()) {
      listener_.on_failure(a, not_reported(f, now), now);
      this->give_up(a, job_state::failed, now);
    }
    land(f, false, true, now);
  }

  feed feed_;
  preemptor<Device, Accountant, Listener> preempt_;

private:
  [[nodiscard]] static std::exception_ptr not_reported(const flight& f, time_point now) noexcept {
    try {
      return std::make_exception_ptr(error(
          errc::device_failed, "segment of " + std::to_string(f.operations.size()) +
                                   " operations: not reported after " +
                                   std::to_string((now - f.submitted).count()) +
                                   " ns, expected to take " + std::to_string(f.expected.count())));
    } catch (...) { // no memory for the line
      return std::make_exception_ptr(std::system_error(make_error_code(errc::device_failed)));
    }
  }

  void take(const device_event& e, time_point now) noexcept {
    using kind = device_event::kind;
    if (e.what == kind::lane_yielded || e.what == kind::lane_resumed) {
      if (!preempt_.hear(e, now, back_at(now))) ++statistics_.unknown_events;
      return;
    }
    flight* f = feed_.find(e.segment);
    if (f == nullptr) {
      const bool ended = e.what == kind::segment_done || e.what == kind::segment_failed;
      if (!ended || !feed_.lanes().find_lost(e.segment)) ++statistics_.unknown_events;
      return;
    }
    if (e.what == kind::segment_done || e.what == kind::segment_failed) {
      land(*f, e.what == kind::segment_done, e.lost, now);
    } else if (e.what == kind::segment_preempted) {
      f->preempted = true; // what is behind it is next, and must be taken back first
      f->ended = e.operation;
    } else {
      feed_.report(*f, e, models_);
    }
  }

  /// A segment has ended: free what it held, learn from it, and let its job go on.
  void land(flight& f, bool done, bool lost, time_point now) noexcept {
    active_job& a = *f.owner;
    const std::optional<duration> took = feed_.land(f, now);
    listener_.on_segment_end(a, f.id, now);
    if (this->is_real_time(a)) this->count_real_time(a, f.expected, took);
    // What runs beside or within it is not to become what it takes alone.
    if (done && took && !a.is_ending() && f.carries == nullptr &&
        !(this->is_real_time(a) && beside_.current() != 0))
      a.kind->estimate.observe_segment(f.program, f.first, f.operations, *took);
    if (done && took && reserve_.is_long(f.program) && feed_.guarded_at(f.place)) {
      const bool undisturbed = preempt_.was_open_since(now - *took);
      reserve_.did(a.kind->number, feed_.reserve_of(f.place), f.expected,
                   undisturbed ? took : std::nullopt, f.last);
    }
    statistics_.operations += f.operations.size();
    if (lost) {
      a.lost = true;
      if (f.carries != nullptr) f.carries->owner->lost = true;
    }
    if (!f.remainder) a.context.list().done(f.stream, f.operations.size());
    a.forget_remainder(f.program, f.first);
    preempt_.landed(f, now);
    if (f.carries != nullptr) {
      active_job& guest = *f.carries->owner;
      if (done && took) preempt_.landed_padded(f, *took);
      this->alight(*f.carries, took.value_or(now - f.submitted), now);
      drop(*f.carries, true, now);
      go_on(guest, done, now);
    }
    drop(f, true, now);
    go_on(a, done, now);
  }
  void go_on(active_job& a, bool done, time_point now) noexcept {
    if (!done && !a.is_ending()) return device_failed(a, errc::device_failed, now);
    wake(a, now);
  }

  void drop(flight& f, bool done, time_point now) noexcept {
    this->end_flight(f, done, now);
    if (feed_.is_side(f)) --f.owner->side_flights;
    feed_.drop(f);
  }
};

} // namespace gsched
