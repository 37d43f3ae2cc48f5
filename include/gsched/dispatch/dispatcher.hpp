// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/flight.hpp>
#include <gsched/dispatch/inbox.hpp>
#include <gsched/dispatch/job_table.hpp>
#include <gsched/dispatch/lane_set.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/model.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/policy/policy.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// Holds jobs back in software and feeds one device: the loop that joins waitlists, policy,
/// accountant and device.
///
/// Source   Ng, Demoulin, Liu, SOSP'23, sections 4 to 6, doi:10.1145/3600006.3613163.
/// Differs  what is dispatched is a segment of about one quantum, not a kernel, for a launch costs
///          the host as much as a small kernel runs; what is ahead of the device is counted in
///          time, for each lane, beside the accountant's blocks.
/// Order    a job's operations run in CUDA's order; between jobs the policy decides.
/// Errors   set-up throws gsched::error. A body that throws and a device that fails end the job as
///          failed; nothing is lost: see dispatch_statistics.
/// Cost     a segment costs one pick, one enqueue and O(lanes); no allocation once as many jobs,
///          launches and frames have been in use as ever will be.
/// Threads  one owner; post may be called from any thread.
template <policy Policy, device Device, accountant Accountant, listener Listener = silent_listener>
class dispatcher {
public:
  /// All that is passed by reference outlives the dispatcher.
  dispatcher(Device& on, Policy& order, Accountant& account, Listener& hears,
             const dispatch_options& how = {})
      : device_(on), policy_(order), accountant_(account), listener_(hears), options_(checked(how)),
        jobs_(how.reserved_jobs, how.reserved_entries), flights_(how.max_segments),
        lanes_(how.low_mark, how.high_mark), models_(on.limits()) {
    for (std::uint32_t i = 0; i < options_.lanes; ++i)
      lanes_.open(device_.open_lane(options_.lane));
  }
  dispatcher(const dispatcher&) = delete;
  dispatcher& operator=(const dispatcher&) = delete;

  // Set-up ------------------------------------------------------------------------------------

  /// Loads a captured graph on the device; it stays in place while the dispatcher lives.
  /// Throws does_not_fit if one of its kernels fits on no SM.
  void load(program& p) {
    const program_footprint asks(device_.limits().sm, device_.limits().sms, p); // may refuse
    device_.load(p);
    models_.add_program(p, asks);
  }

  /// A kind of job: its body, which outlives the dispatcher, and a program to expect of it.
  [[nodiscard]] model_id add_model(std::string name, job_body body,
                                   const program* prior = nullptr) {
    return models_.add(std::move(name), body,
                       std::span<const program* const>(&prior, prior != nullptr ? 1 : 0));
  }

  client& add_client(double weight = 1.0) {
    if (!(weight > 0)) throw error(errc::bad_option, "client weight: expected more than 0");
    client& c = clients_.emplace_back();
    c.id = client_id{static_cast<std::uint32_t>(clients_.size() - 1)};
    c.weight = weight;
    return c;
  }

  // Jobs --------------------------------------------------------------------------------------

  /// Starts a job, or refuses it: its end is told to the listener, maybe before this returns.
  job_id submit(const job_request& r) {
    assert(r.owner != nullptr);
    const time_point now = device_.now();
    active_job& a = jobs_.take(job_id{next_id_++});
    ++statistics_.submitted;
    ++statistics_.active;
    a.kind = &models_[r.model];
    a.service = r.service;
    a.state = job_state::waiting;
    a.owner = r.owner;
    a.arrival = r.arrival;
    a.deadline = r.deadline;
    a.user = r.user;
    a.flights = 0;
    a.announced = false;
    a.ending = job_state::running;
    a.progress = &a.kind->estimate.begin();
    a.total = a.remaining = a.kind->estimate.remaining(*a.progress);
    a.head = std::min(a.total, options_.quantum);
    const job_id id = a.id;
    listener_.on_arrival(a, a.user, now);
    if (jobs_.size() > options_.max_jobs || !admitted(a, now)) {
      end(a, job_state::rejected, now);
      return id;
    }
    a.state = job_state::running;
    a.context.user = a.user;
    a.context.start(a.kind->body);
    settle(a, now);
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

  /// Cancels all active jobs.
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
    moved = hear() || moved;
    if (options_.evict_on_preempt) evict_for_better();
    while (dispatch_one()) moved = true;
    return moved;
  }

  /// No job is active.
  [[nodiscard]] bool idle() const noexcept { return jobs_.size() == 0; }
  /// Nothing is in flight: with active jobs and no step to take, they wait for what never comes.
  [[nodiscard]] bool nothing_in_flight() const noexcept { return flights_.in_use() == 0; }
  [[nodiscard]] const dispatch_statistics& statistics() const noexcept { return statistics_; }
  [[nodiscard]] const dispatch_options& options() const noexcept { return options_; }
  [[nodiscard]] const model& model_of(model_id id) const noexcept { return models_[id]; }

private:
  static const dispatch_options& checked(const dispatch_options& o) {
    o.check();
    return o;
  }

  [[nodiscard]] bool admitted(const active_job& a, time_point now) const noexcept {
    if constexpr (admitting_policy<Policy>)
      return policy_.admits(a, now);
    else
      return true;
  }

  bool take_posted() {
    posted_request* r = inbox_.try_take_all();
    const bool any = r != nullptr;
    while (r != nullptr) {
      posted_request* const next = r->next_posted;
      if (r->what == posted_request::kind::submit)
        r->id = submit(r->request);
      else
        cancel(r->id);
      if (r->taken != nullptr) r->taken(*r); // after this the sender may free it
      r = next;
    }
    return any;
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
    flight* f = flights_.find(e.segment);
    if (f == nullptr) {
      ++statistics_.unknown_events;
      return;
    }
    switch (e.what) {
    case device_event::kind::blocks_started:
      if constexpr (Accountant::wants_blocks)
        accountant_.started(f->id, e.operation,
                            models_.demand(f->program, f->first, f->operations, e.operation), e.sm,
                            e.blocks);
      return;
    case device_event::kind::blocks_done:
      if constexpr (Accountant::wants_blocks) accountant_.ended(f->id, e.operation, e.sm, e.blocks);
      return;
    case device_event::kind::segment_done: land(*f, true, now); return;
    case device_event::kind::segment_failed: land(*f, false, now); return;
    }
  }

  /// A segment has ended: free what it held, learn from it, and let its job go on.
  void land(flight& f, bool done, time_point now) noexcept {
    active_job& a = *f.owner;
    const duration took = now - std::max(f.submitted, lanes_.last_end(f.place));
    lanes_.remove(f.place, f);
    lanes_.ended(f.place, now);
    accountant_.release(f.id);
    listener_.on_segment_end(a, f.id, now);
    if (done && !a.is_ending())
      a.kind->estimate.observe_segment(f.program, f.first, f.operations, took);
    a.context.list().done(f.stream, f.operations.size());
    statistics_.operations += f.operations.size();
    --a.flights;
    flights_.give_back(f);
    if (!done && !a.is_ending()) return give_up(a, job_state::failed, now);
    settle(a, now);
  }

  /// After anything about a job has changed: run its host functions and its body as far as they go,
  /// then end it or offer it to the policy.
  void settle(active_job& a, time_point now) noexcept {
    if (a.is_ending()) {
      a.context.list().drop_pending();
      if (a.flights == 0) end(a, a.ending, now);
      return;
    }
    waitlist& list = a.context.list();
    for (;;) {
      while (const auto call = list.try_take_call()) {
        call->function(call->argument);
        ++statistics_.host_calls;
        list.call_done(call->stream);
      }
      if (!a.context.resume_if_ready()) break;
    }
    if (a.context.failure()) return give_up(a, job_state::failed, now);
    if (a.context.finished() && list.idle()) return end(a, job_state::finished, now);
    offer(a, now);
  }

  void offer(active_job& a, time_point now) noexcept {
    if (a.in_policy || a.flights >= options_.segments_per_job || !a.context.list().has_active())
      return;
    a.head = a.context.list().head_expected(options_.quantum);
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

  void end(active_job& a, job_state how, time_point now) noexcept {
    assert(!a.in_policy && a.flights == 0);
    a.state = how;
    --statistics_.active;
    switch (how) {
    case job_state::finished: ++statistics_.finished; break;
    case job_state::rejected: ++statistics_.rejected; break;
    case job_state::cancelled: ++statistics_.cancelled; break;
    default: ++statistics_.failed; break;
    }
    a.kind->estimate.end(*a.progress, how == job_state::finished);
    jobs_.remove(a);
    listener_.on_end(a, a.user, now);
    a.context.reset();
    jobs_.give_back(a);
  }

  /// Picks a job and submits its next segment; false if nothing waits or nothing more is wanted.
  bool dispatch_one() noexcept {
    if (policy_.size() == 0 || flights_.full() || !accountant_.has_room()) return false;
    if (options_.use == lane_use::shared && !lanes_.any_hungry()) return false;
    const time_point now = device_.now();
    active_job& a = static_cast<active_job&>(*policy_.try_pick(now));
    a.in_policy = false;
    ++statistics_.decisions;
    flight& f = *flights_.try_take(a);
    waitlist& list = a.context.list();
    const auto c = list.try_cut(std::min(policy_.slice(a), options_.quantum), f.loose);
    assert(c && !c->operations.empty());
    f.place = place_for(a, c->stream);
    f.stream = c->stream;
    f.expected = c->expected;
    f.program = c->program;
    f.first = c->first;
    f.operations = c->operations;
    f.submitted = now;
    const segment s{f.id,      a.id,    lanes_.id(f.place), options_.how, options_.instrumented,
                    f.program, f.first, f.operations};
    if (c->last_work && a.context.launches_no_more() && !std::exchange(a.announced, true))
      listener_.on_almost_finished(a, a.user, now);
    if (device_.submit(s)) {
      list.undo(c->stream, c->operations.size());
      flights_.give_back(f);
      give_up(a, job_state::failed, now);
      return true;
    }
    list.bind(c->stream, lane_id{f.place});
    accountant_.charge(f.id, models_.asks(s));
    lanes_.add(f.place, f);
    a.kind->estimate.dispatched(*a.progress, f.program, f.first, f.operations);
    ++a.flights;
    ++statistics_.segments;
    listener_.on_submit(a, s, c->expected, now);
    offer(a, now);
    return true;
  }

  [[nodiscard]] std::uint32_t place_for(const active_job& a, stream_id stream) noexcept {
    if (const auto bound = a.context.list().lane(stream)) return index(*bound);
    if (options_.use == lane_use::own) return lanes_.next_in_turn();
    return *lanes_.hungriest();
  }

  /// Takes back, at most once a lane, what has not started where the policy would rather serve
  /// another job. Started work is never touched, so nothing runs twice.
  void evict_for_better() noexcept {
    if (policy_.size() == 0) return;
    const time_point now = device_.now();
    for (std::uint32_t place = 0; place < lanes_.size(); ++place) {
      const flight* newest = lanes_.newest(place);
      if (newest == nullptr || !policy_.wants_preempt(*newest->owner, now)) continue;
      for (std::size_t n = device_.evict(lanes_.id(place)); n > 0; --n)
        take_back(*lanes_.newest(place), now);
    }
  }

  void take_back(flight& f, time_point now) noexcept {
    active_job& a = *f.owner;
    lanes_.remove(f.place, f);
    accountant_.release(f.id);
    a.context.list().undo(f.stream, f.operations.size());
    a.kind->estimate.undone(*a.progress, f.program, f.first, f.operations);
    --a.flights;
    ++statistics_.evicted_segments;
    flights_.give_back(f);
    if (std::exchange(a.in_policy, false)) policy_.erase(a); // its head has changed
    settle(a, now);
  }

  Device& device_;
  Policy& policy_;
  Accountant& accountant_;
  Listener& listener_;
  dispatch_options options_;
  job_table jobs_;
  flight_table flights_;
  lane_set lanes_;
  model_table models_;
  std::deque<client> clients_;
  inbox<posted_request> inbox_;
  dispatch_statistics statistics_{};
  std::uint64_t next_id_ = 0;
};

} // namespace gsched
