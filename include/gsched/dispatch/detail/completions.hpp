// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/detail/class_isolation.hpp>
#include <gsched/dispatch/detail/class_load.hpp>
#include <gsched/dispatch/detail/colocation.hpp>
#include <gsched/dispatch/detail/flight.hpp>
#include <gsched/dispatch/detail/job_lifecycle.hpp>
#include <gsched/dispatch/detail/lane_feed.hpp>
#include <gsched/dispatch/detail/registry.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/statistics.hpp>
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

/// Handles the device's events: ended and preempted segments, yielded lanes; and segments that the
/// device does not report.
///
/// Cost     O(1) an event; no allocation.
/// Threads  one owner; no locking.
template <policy Policy, device Device, accountant Accountant, listener Listener>
class completions {
public:
  using feed = lane_feed<Device, Accountant>;
  using isolation = class_isolation<Device, Accountant, Listener>;
  using lifecycle = job_lifecycle<Policy, Device, Listener>;
  using padding = colocation<Policy, Device, Listener>;

  completions(Device& on, Listener& listens, const registry& known, class_load& load, feed& lanes,
              isolation& classes, lifecycle& jobs, padding& pads, dispatch_statistics& counts)
      : device_(on), listener_(listens), registry_(known), load_(load), feed_(lanes),
        isolation_(classes), jobs_(jobs), colocation_(pads), statistics_(counts) {}

  /// Handles all pending device events. Returns false if there are none.
  bool poll() noexcept {
    bool any = false;
    for (;;) {
      const std::size_t n = device_.poll(events_);
      if (n == 0) return any;
      any = true;
      const time_point now = device_.now();
      for (std::size_t i = 0; i < n; ++i) handle(events_[i], now);
    }
  }

  /// A segment was withdrawn from the device, and its remaining operations will be dispatched
  /// again.
  void take_back(flight& f, bool may_have_started, time_point now) noexcept {
    active_job& a = *f.owner;
    jobs_.withdraw(a); // its facts are about to change
    const std::uint32_t ended = f.preempted ? f.ended : 0;
    if (f.preempted) {
      listener_.on_segment_end(a, f.id, now);
      statistics_.operations += ended;
      if (may_have_started) {
        a.forget_remainder(f.program, f.first);
        a.keep_remainder(f.program, f.first + ended, f.operations.subspan(ended));
      }
    } else {
      ++statistics_.evicted_segments;
    }
    if (!f.remainder) {
      a.context.list().done(f.stream, ended);
      jobs_.undo(f, ended);
    }
    if (f.carries != nullptr) {
      active_job& corunner = *f.carries->owner;
      colocation_.cancel(*f.carries);
      drop(*f.carries, false, now);
      jobs_.advance(corunner, now);
    }
    drop(f, false, now);
    jobs_.advance(a, now);
  }
  /// take_back() as a callback.
  [[nodiscard]] auto back_at(time_point now) noexcept {
    return [this, now](flight& f, bool may_have_started) { take_back(f, may_have_started, now); };
  }

  /// The device has not reported a segment within its limit. The segments behind it are dispatched
  /// again if the device has not started them.
  void lose(flight& f, time_point now) noexcept {
    active_job& a = *f.owner;
    const std::uint32_t place = f.place;
    const segment_id id = f.id;
    ++statistics_.lost_segments;
    feed_.lanes().lose(place, id); // first, so that segments taken back go to other lanes
    if (feed_.lanes().newest(place) != &f)
      feed_.evict(place, [&](flight& behind) { take_back(behind, false, now); });
    if (!a.is_ending()) jobs_.fail(a, not_reported(f, now), now);
    complete(f, false, true, now);
  }

private:
  [[nodiscard]] static std::exception_ptr not_reported(const flight& f, time_point now) noexcept {
    try {
      return std::make_exception_ptr(error(
          errc::device_failed, "segment of " + std::to_string(f.operations.size()) +
                                   " operations: not reported after " +
                                   std::to_string((now - f.submitted).count()) +
                                   " ns, expected to take " + std::to_string(f.expected.count())));
    } catch (...) { // no memory for the message
      return std::make_exception_ptr(std::system_error(make_error_code(errc::device_failed)));
    }
  }

  void handle(const device_event& e, time_point now) noexcept {
    using kind = device_event::kind;
    if (e.what == kind::lane_yielded || e.what == kind::lane_resumed) {
      if (!isolation_.lane_event(e, now, back_at(now))) ++statistics_.unknown_events;
      return;
    }
    const bool ended = e.what == kind::segment_done || e.what == kind::segment_failed;
    flight* const f = feed_.find(e.segment);
    if (f == nullptr) {
      if (!ended || !feed_.lanes().find_lost(e.segment)) ++statistics_.unknown_events;
    } else if (ended) {
      complete(*f, e.what == kind::segment_done, e.lost, now);
    } else if (e.what == kind::segment_preempted) {
      f->preempted = true; // the segment behind it is next, and must be taken back before it starts
      f->ended = e.operation;
    } else {
      feed_.report(*f, e, registry_);
    }
  }

  /// A segment has ended: frees its resources, learns its time, and lets its job continue.
  void complete(flight& f, bool done, bool lost, time_point now) noexcept {
    active_job& a = *f.owner;
    const bool real_time = class_load::is_real_time(a);
    const std::optional<duration> took = feed_.complete(f, now);
    listener_.on_segment_end(a, f.id, now);
    if (real_time) load_.real_time_ended(a, f.expected, took);
    // Time measured with co-located work is not learned as time alone.
    if (done && took && !a.is_ending() && f.carries == nullptr &&
        !(real_time && load_.beside().current() != 0))
      a.kind->estimate.observe_segment(f.program, f.first, f.operations, *took);
    statistics_.operations += f.operations.size();
    if (lost) {
      a.lost = true;
      if (f.carries != nullptr) f.carries->owner->lost = true;
    }
    if (!f.remainder) a.context.list().done(f.stream, f.operations.size());
    a.forget_remainder(f.program, f.first);
    isolation_.completed(f, done, took, now);
    if (f.carries != nullptr) {
      active_job& corunner = *f.carries->owner;
      if (done && took) isolation_.completed_padded(f, *took);
      colocation_.detach(*f.carries, took.value_or(now - f.submitted), now);
      drop(*f.carries, true, now);
      jobs_.segment_ended(corunner, done, now);
    }
    drop(f, true, now);
    jobs_.segment_ended(a, done, now);
  }

  void drop(flight& f, bool done, time_point now) noexcept {
    jobs_.flight_ended(f, done, now);
    if (feed_.is_side(f)) --f.owner->side_flights;
    feed_.drop(f);
  }

  Device& device_;
  Listener& listener_;
  const registry& registry_;
  class_load& load_;
  feed& feed_;
  isolation& isolation_;
  lifecycle& jobs_;
  padding& colocation_;
  dispatch_statistics& statistics_;
  std::array<device_event, 64> events_; ///< of poll; a member, as zeroing it takes time
};

} // namespace gsched
