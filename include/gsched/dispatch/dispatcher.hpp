// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/inbox.hpp>
#include <gsched/dispatch/job_table.hpp>
#include <gsched/dispatch/lane_feed.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/registry.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/policy/policy.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
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
class dispatcher : public registry<Device> {
  using registry<Device>::device_;
  using registry<Device>::models_;

public:
  /// All that is passed by reference outlives the dispatcher.
  dispatcher(Device& on, Policy& order, Accountant& account, Listener& hears,
             const dispatch_options& how = {})
      : registry<Device>(on), policy_(order), listener_(hears), options_(how.checked()),
        jobs_(how.reserved_jobs, how.reserved_entries), feed_(on, account, options_) {}
  dispatcher(const dispatcher&) = delete;
  dispatcher& operator=(const dispatcher&) = delete;
  /// Jobs that are still active are dropped without a word to the listener: cancel_all and run
  /// until idle first. Nothing of them may be in flight on the device.
  ~dispatcher() {
    jobs_.for_each([&](active_job& a) {
      if (a.in_policy) policy_.erase(a);
      static_cast<void>(a.drop_instance());
    });
    if constexpr (requires(client & c) { policy_.forget(c); })
      this->for_each_client([&](client& c) { policy_.forget(c); });
  }

  // Jobs --------------------------------------------------------------------------------------

  /// Starts a job, or refuses it: its end is told to the listener, maybe before this returns.
  job_id submit(const job_request& r) {
    const time_point now = device_.now();
    active_job& a = jobs_.take(job_id{next_id_++});
    statistics_.count_submit();
    a.begin(r, models_[r.model], options_.quantum);
    const job_id id = a.id;
    listener_.on_arrival(a, a.user, now);
    if (jobs_.size() > options_.max_jobs || !admits(policy_, a, now)) {
      end(a, job_state::rejected, now);
      return id;
    }
    if (a.claim_instance()) wake(a, now);
    return id;
  }

  /// Ends a job as cancelled as soon as what is in flight of it has ended; false if it has ended
  /// already or is about to.
  bool cancel(job_id id) noexcept {
    active_job* a = jobs_.find(id);
    if (a == nullptr || a->is_ending()) return false;
    give_up(*a, job_state::cancelled, device_.now());
    return true;
  }

  void cancel_all() noexcept {
    jobs_.for_each([&](active_job& a) {
      if (!a.is_ending()) give_up(a, job_state::cancelled, device_.now());
    });
  }

  /// From any thread: the request is taken up by a later step.
  void post(posted_request& r) noexcept { inbox_.post(r); }

  // The loop ----------------------------------------------------------------------------------

  /// Takes what was posted, hears what the device reports, and fills its lanes; never waits. False
  /// if there was nothing to do: then it is time for device.wait.
  bool step() {
    bool moved = take_posted();
    moved |= hear();
    moved |= start_waiting();
    if (options_.evict_on_preempt && std::exchange(woken_, false)) evict_for_better();
    while (dispatch_one()) moved = true;
    return moved;
  }

  [[nodiscard]] bool idle() const noexcept { return jobs_.size() == 0; }
  /// Nothing is in flight: with active jobs and no step to take, they wait for what never comes.
  [[nodiscard]] bool nothing_in_flight() const noexcept { return feed_.empty(); }
  [[nodiscard]] const dispatch_statistics& statistics() const noexcept { return statistics_; }

private:
  bool take_posted() {
    return inbox_.take_each([&](posted_request& r) {
      if (r.what == posted_request::kind::submit)
        r.id = submit(r.request);
      else
        cancel(r.id);
      if (r.taken != nullptr) r.taken(r); // after this the sender may free it
    });
  }

  /// Instances have come free: the jobs that waited for them start.
  bool start_waiting() {
    if (!std::exchange(freed_, false)) return false;
    models_.start_waiting([&](job& j) {
      static_cast<active_job&>(j).hold_instance();
      wake(static_cast<active_job&>(j), device_.now());
    });
    return true;
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
    flight* f = feed_.find(e.segment);
    if (f == nullptr) {
      ++statistics_.unknown_events;
      return;
    }
    switch (e.what) {
    case device_event::kind::segment_done: land(*f, true, now); return;
    case device_event::kind::segment_failed: land(*f, false, now); return;
    case device_event::kind::blocks_started:
    case device_event::kind::blocks_done: feed_.report(*f, e, models_); return;
    case device_event::kind::segment_preempted:
    case device_event::kind::lane_yielded:
    case device_event::kind::lane_resumed: return;
    }
  }

  /// A segment has ended: free what it held, learn from it, and let its job go on.
  void land(flight& f, bool done, time_point now) noexcept {
    active_job& a = *f.owner;
    const duration took = feed_.land(f, now);
    listener_.on_segment_end(a, f.id, now);
    if (done && !a.is_ending())
      a.kind->estimate.observe_segment(f.program, f.first, f.operations, took);
    statistics_.operations += f.operations.size();
    a.context.list().done(f.stream, f.operations.size());
    feed_.drop(f);
    --a.flights;
    if (!done && !a.is_ending()) return fail(a, errc::device_failed, now);
    wake(a, now);
  }

  /// A job that comes or comes back to the policy with nothing in flight may preempt others. One
  /// that was taken back may not, so that two jobs never evict one another in turn.
  void wake(active_job& a, time_point now) noexcept {
    settle(a, now);
    if (a.in_policy && a.flights == 0) woken_ = true;
  }

  /// After anything about a job has changed: run its host functions and its body as far as they go,
  /// then end it or offer it to the policy.
  void settle(active_job& a, time_point now) noexcept {
    if (a.is_ending()) {
      a.context.list().drop_pending();
      if (a.flights == 0) end(a, a.ending, now);
      return;
    }
    statistics_.host_calls += a.advance();
    if (a.is_ending()) return settle(a, now); // it cancelled itself
    if (const auto why = a.context.failure()) {
      listener_.on_failure(a, why, now);
      return give_up(a, job_state::failed, now);
    }
    if (a.context.finished() && a.context.list().idle()) return end(a, job_state::finished, now);
    offer(a, now);
  }

  void offer(active_job& a, time_point now) noexcept {
    if (a.in_policy || a.flights >= options_.segments_per_job || !a.context.list().has_active())
      return;
    a.size_next(policy_.size() > 0, options_.quantum, options_.most_quantum);
    a.head =
        a.context.list().head_expected(std::min(policy_.slice(a), a.quantum), flight::max_loose);
    a.remaining = a.kind->estimate.remaining(*a.progress);
    policy_.enqueue(a, now);
    a.in_policy = true;
  }

  /// Forgets what was not dispatched and ends the job once nothing of it is in flight.
  void give_up(active_job& a, job_state how, time_point now) noexcept {
    if (std::exchange(a.in_policy, false)) policy_.erase(a);
    a.ending = how;
    a.context.cancel();
    a.context.list().drop_pending();
    if (a.flights == 0) end(a, how, now);
  }

  void fail(active_job& a, std::error_code why, time_point now) noexcept {
    listener_.on_failure(a, failure_of(device_, why), now);
    give_up(a, job_state::failed, now);
  }

  void end(active_job& a, job_state how, time_point now) noexcept {
    assert(!a.in_policy && a.flights == 0);
    a.state = how;
    freed_ |= a.drop_instance();
    statistics_.count_end(how);
    a.kind->estimate.end(*a.progress, how == job_state::finished);
    jobs_.remove(a);
    listener_.on_end(a, a.user, now);
    a.context.reset();
    jobs_.give_back(a);
  }

  /// Picks a job and submits its next segment; false if nothing waits or nothing more is wanted.
  bool dispatch_one() noexcept {
    if (policy_.size() == 0 || !feed_.wants_more()) return false;
    const time_point now = device_.now();
    active_job& a = static_cast<active_job&>(*policy_.try_pick(now));
    a.in_policy = false;
    ++statistics_.decisions;
    flight& f = feed_.take(a);
    waitlist& list = a.context.list();
    const auto c = list.try_cut(std::min(policy_.slice(a), a.quantum), f.loose);
    assert(c && !c->operations.empty()); // only jobs with active work are in the policy
    const segment s = feed_.plan(f, *c, now);
    if (c->last_work && a.context.launches_no_more() && !std::exchange(a.announced, true))
      listener_.on_almost_finished(a, a.user, now);
    if (const std::error_code e = feed_.submit(f, s, models_)) {
      list.undo(f.stream, f.operations.size());
      feed_.drop(f);
      fail(a, e, now);
      return true;
    }
    a.kind->estimate.dispatched(*a.progress, f.program, f.first, f.operations);
    ++a.flights;
    ++statistics_.segments;
    listener_.on_submit(a, s, f.expected, now);
    offer(a, now);
    return true;
  }

  /// Takes back what has not started where the policy would rather serve another job.
  void evict_for_better() noexcept {
    if (policy_.size() == 0) return;
    const time_point now = device_.now();
    const auto better = [&](const active_job& a) { return policy_.wants_preempt(a, now); };
    feed_.evict(better, [&](flight& f) {
      active_job& a = *f.owner;
      if (std::exchange(a.in_policy, false)) policy_.erase(a); // its facts are about to change
      a.context.list().undo(f.stream, f.operations.size());
      a.kind->estimate.undone(*a.progress, f.program, f.first, f.operations);
      feed_.drop(f);
      --a.flights;
      ++statistics_.evicted_segments;
      settle(a, now);
    });
  }

  Policy& policy_;
  Listener& listener_;
  dispatch_options options_;
  job_table jobs_;
  lane_feed<Device, Accountant> feed_;
  inbox<posted_request> inbox_;
  dispatch_statistics statistics_{};
  bool woken_ = false; ///< since the last look for what to evict
  bool freed_ = false; ///< an instance that a job waits for, since the last look
  std::uint64_t next_id_ = 0;
};

} // namespace gsched
