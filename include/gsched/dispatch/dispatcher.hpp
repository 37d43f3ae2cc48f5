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
#include <gsched/dispatch/request.hpp>
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
class dispatcher : public job_life<Policy, Device, Listener> {
  using life = job_life<Policy, Device, Listener>;
  using life::device_;
  using life::fail;
  using life::listener_;
  using life::models_;
  using life::offer;
  using life::options_;
  using life::policy_;
  using life::settle;
  using life::start_waiting;
  using life::statistics_;
  using life::wake;
  using life::woken_;

public:
  /// All that is passed by reference outlives the dispatcher.
  dispatcher(Device& on, Policy& order, Accountant& account, Listener& hears,
             const dispatch_options& how = {})
      : life(on, order, hears, how), feed_(on, account, options_) {}
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
    if (options_.evict_on_preempt && std::exchange(woken_, false)) evict_for_better();
    while (dispatch_one()) moved = true;
    return moved;
  }

  /// Nothing is in flight: with active jobs and no step to take, they wait for what never comes.
  [[nodiscard]] bool nothing_in_flight() const noexcept { return feed_.empty(); }

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

  lane_feed<Device, Accountant> feed_;
  inbox<posted_request> inbox_;
};

} // namespace gsched
