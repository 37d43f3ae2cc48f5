// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/flight.hpp>
#include <gsched/dispatch/inbox.hpp>
#include <gsched/dispatch/job_life.hpp>
#include <gsched/dispatch/lane_feed.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/preemptor.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/preempt/statistics.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

namespace gsched {

/// Holds jobs back in software and feeds one device: the loop that joins waitlists, policy,
/// accountant and device.
///
/// Source   Ng, Demoulin, Liu, SOSP'23, sections 4 to 6, doi:10.1145/3600006.3613163.
/// Differs  what is dispatched is a segment of about one quantum, not a kernel, for a launch costs
///          the host as much as a small kernel runs; what is ahead of the device is counted in
///          time, for each lane, beside the accountant's blocks.
/// Order    a job's operations run in CUDA's order; between jobs the policy decides.
/// Errors   a body that throws and a device that fails end the job as failed, and the listener is
///          told why; nothing is lost: see dispatch_statistics.
/// Cost     a segment costs one pick, one enqueue and O(lanes); no allocation once as many jobs,
///          launches and frames have been in use as ever will be.
/// Threads  one owner; post may be called from any thread.
template <policy Policy, device Device, accountant Accountant, listener Listener = silent_listener>
class dispatcher : public job_life<Policy, Device, Listener> {
  using life = job_life<Policy, Device, Listener>;
  using feed = lane_feed<Device, Accountant>;
  using life::active;
  using life::arrivals_;
  using life::beside_;
  using life::close;
  using life::device_;
  using life::fail;
  using life::listener_;
  using life::models_;
  using life::offer;
  using life::offer_passed_over;
  using life::options_;
  using life::pass_over;
  using life::policy_;
  using life::real_time_left_;
  using life::settle;
  using life::start_waiting;
  using life::statistics_;
  using life::wake;
  using life::woken_;

public:
  /// All that is passed by reference outlives the dispatcher.
  dispatcher(Device& on, Policy& order, Accountant& account, Listener& hears,
             const dispatch_options& how = {})
      : life(on, order, hears, how), feed_(on, account, options_),
        preempt_(on, feed_, hears, options_, beside_) {}
  dispatcher(const dispatcher&) = delete;
  dispatcher& operator=(const dispatcher&) = delete;

  /// From any thread: the request is taken up by a later step.
  void post(posted_request& r) noexcept { inbox_.post(r); }

  // The loop ----------------------------------------------------------------------------------

  /// Takes what was posted, hears what the device reports, and fills its lanes; never waits. False
  /// if there was nothing to do: then it is time for device.wait.
  bool step() {
    bool moved = take_posted();
    moved |= hear();
    moved |= start_waiting();
    keep_apart();
    if (options_.evict_on_preempt && std::exchange(woken_, false)) evict_for_better();
    while (dispatch_one()) moved = true;
    return moved;
  }

  /// Nothing is in flight: with active jobs and no step to take, they wait for what never comes.
  [[nodiscard]] bool nothing_in_flight() const noexcept { return feed_.empty(); }
  /// What was done to keep the classes apart.
  [[nodiscard]] const preemption_statistics& preemption() const noexcept {
    return preempt_.statistics();
  }

private:
  bool take_posted() {
    return inbox_.take_each([&](posted_request& r) {
      if (r.what == posted_request::kind::submit)
        r.id = this->submit(r.request);
      else
        this->cancel(r.id);
      if (r.taken != nullptr) r.taken(r); // after this the sender may free it
    });
  }

  bool hear() noexcept {
    std::array<device_event, 64> events;
    bool any = false;
    for (;;) {
      const std::size_t n = device_.poll(events);
      if (n == 0) return any;
      any = true;
      const time_point now = device_.now();
      for (std::size_t i = 0; i < n; ++i) hear(events[i], now);
    }
  }

  void hear(const device_event& e, time_point now) noexcept {
    using kind = device_event::kind;
    if (e.what == kind::lane_yielded || e.what == kind::lane_resumed) {
      if (!preempt_.hear(e, now, back_at(now))) ++statistics_.unknown_events;
      return;
    }
    flight* f = feed_.find(e.segment);
    if (f == nullptr) {
      ++statistics_.unknown_events;
      return;
    }
    if (e.what == kind::segment_done || e.what == kind::segment_failed) {
      land(*f, e.what == kind::segment_done, now);
    } else if (e.what == kind::segment_preempted) {
      f->preempted = true; // what is behind it is next, and must be taken back first
      f->ended = e.operation;
    } else {
      feed_.report(*f, e, models_);
    }
  }

  /// A segment has ended: free what it held, learn from it, and let its job go on.
  void land(flight& f, bool done, time_point now) noexcept {
    active_job& a = *f.owner;
    const std::optional<duration> took = feed_.land(f, now);
    listener_.on_segment_end(a, f.id, now);
    if (this->is_real_time(a)) this->count_real_time(a, f.expected, took);
    // What runs beside it is not to become what it takes alone.
    if (done && took && !a.is_ending() && !(this->is_real_time(a) && beside_.current() != 0))
      a.kind->estimate.observe_segment(f.program, f.first, f.operations, *took);
    statistics_.operations += f.operations.size();
    if (!f.remainder) a.context.list().done(f.stream, f.operations.size());
    a.forget_remainder(f.program, f.first);
    preempt_.landed(f, now);
    drop(f);
    if (!done && !a.is_ending()) return fail(a, errc::device_failed, now);
    wake(a, now);
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
    drop(f);
    settle(a, now);
  }
  [[nodiscard]] auto back_at(time_point now) noexcept {
    return [this, now](flight& f, bool may_have_started) { take_back(f, may_have_started, now); };
  }

  void drop(flight& f) noexcept {
    if (--f.owner->flights == 0 && !this->is_real_time(*f.owner)) --best_effort_flying_;
    if (feed_.is_side(f)) --f.owner->side_flights;
    feed_.drop(f);
  }

  /// Before a round of decisions: whose turn is it, and how much may be queued?
  void keep_apart() noexcept {
    if (!feed_.apart()) return;
    const time_point now = device_.now();
    const std::size_t best_effort = active(service_class::best_effort);
    preempt_.update(active(service_class::real_time) > 0, best_effort > 0,
                    best_effort > best_effort_flying_, back_at(now));
    if (preempt_.open() || real_time_left_ > last_left_) offer_passed_over(now);
    last_left_ = real_time_left_;
    if (const auto most = preempt_.adapt(arrivals_)) this->most_best_effort_ = *most;
  }

  /// The lanes that are to get more next, and for which a job waits.
  [[nodiscard]] std::optional<std::size_t> next_group() const noexcept {
    if constexpr (serves_real_time_first<Policy>) {
      if (feed_.apart()) {
        if (policy_.size(service_class::real_time) > 0 && feed_.wants_more(feed::real_time))
          return feed::real_time;
        if (policy_.size(service_class::best_effort) == 0) return std::nullopt;
        const auto to = preempt_.open() ? std::optional(feed::best_effort) : preempt_.side();
        return to && feed_.wants_more(*to) ? to : std::nullopt;
      }
    }
    if (policy_.size() == 0 || !feed_.wants_more(feed::best_effort)) return std::nullopt;
    return feed::best_effort;
  }

  [[nodiscard]] active_job& pick_for(std::size_t group, time_point now) noexcept {
    if constexpr (serves_real_time_first<Policy>) {
      if (feed_.apart()) {
        const auto of =
            group == feed::real_time ? service_class::real_time : service_class::best_effort;
        return static_cast<active_job&>(*policy_.try_pick(of, now));
      }
    }
    return static_cast<active_job&>(*policy_.try_pick(now));
  }

  /// Picks a job and submits its next segment; false if nothing waits or nothing more is wanted.
  bool dispatch_one() noexcept {
    const std::optional<std::size_t> group = next_group();
    if (!group) return false;
    const time_point now = device_.now();
    active_job& a = pick_for(*group, now);
    a.in_policy = false;
    ++statistics_.decisions;
    // What it has in flight elsewhere comes first; the end of that brings it back to the policy.
    const bool elsewhere = !a.may_go_to(*group, feed::first_side);
    if (elsewhere ||
        (*group >= feed::first_side && !preempt_.ends_in_time(a, real_time_left_, now))) {
      if (*group >= feed::first_side) pass_over(a);
      return true;
    }
    flight& f = feed_.take(a);
    const cut c = this->next_of(a, f, preempt_.most_on(*group, real_time_left_, now));
    const segment s = feed_.plan(f, c, *group, now);
    if (c.last_work && a.context.launches_no_more() && !std::exchange(a.announced, true))
      listener_.on_almost_finished(a, a.user, now);
    if (const std::error_code e = feed_.submit(f, s, models_)) {
      refuse(f, e, now);
      return true;
    }
    if (!f.remainder) a.kind->estimate.dispatched(*a.progress, f.program, f.first, f.operations);
    if (++a.flights == 1 && !this->is_real_time(a)) ++best_effort_flying_;
    if (feed_.is_side(f)) {
      ++a.side_flights;
      preempt_.let_beside(now);
    }
    a.dispatched_at(*group, beside_.epoch());
    ++statistics_.segments;
    listener_.on_submit(a, s, f.expected, now);
    if (!a.is_ending()) offer(a, now);
    return true;
  }

  /// The device did not take a segment.
  void refuse(flight& f, std::error_code why, time_point now) noexcept {
    active_job& a = *f.owner;
    if (!f.remainder) a.context.list().undo(f.stream, f.operations.size());
    a.forget_remainder(f.program, f.first); // nobody can run it
    feed_.drop(f);
    a.is_ending() ? close(a, now) : fail(a, why, now);
  }

  /// Takes back what has not started where the policy would rather serve another job. Where the
  /// classes are kept apart, a job makes way for its own class.
  void evict_for_better() noexcept {
    if (policy_.size() == 0) return;
    const time_point now = device_.now();
    const auto better = [&](const flight& f) {
      if (feed_.apart() && f.place < options_.lanes &&
          (active(service_class::real_time) > 0 || !preempt_.open()))
        return false;
      return policy_.wants_preempt(*f.owner, now);
    };
    feed_.evict(better, [&](flight& f) { take_back(f, false, now); });
  }

  feed feed_;
  preemptor<Device, Accountant, Listener> preempt_;
  inbox<posted_request> inbox_;
  std::size_t best_effort_flying_ = 0; ///< best-effort jobs with segments in flight
  duration last_left_{};               ///< real_time_left_, when it was looked at last
};

} // namespace gsched
