// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/flight.hpp>
#include <gsched/dispatch/job_table.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/registry.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/policy/policy.hpp>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <system_error>
#include <utility>

namespace gsched {

/// The life of a dispatcher's jobs, from request to end, in and out of the policy. What of them is
/// in flight, and where, is the dispatcher's.
///
/// Threads  one owner; no locking.
template <policy Policy, device Device, listener Listener>
class job_life : public registry<Device> {
protected:
  using registry<Device>::device_;
  using registry<Device>::models_;

public:
  job_life(Device& on, Policy& order, Listener& hears, const dispatch_options& how)
      : registry<Device>(on), policy_(order), listener_(hears), options_(how.checked()),
        jobs_(how.reserved_jobs, how.reserved_entries) {}
  /// Jobs that are still active are dropped without a word to the listener: cancel_all and run
  /// until idle first. Nothing of them may be in flight on the device.
  ~job_life() {
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

  [[nodiscard]] bool idle() const noexcept { return jobs_.size() == 0; }
  [[nodiscard]] const dispatch_statistics& statistics() const noexcept { return statistics_; }

protected:
  /// Instances have come free: the jobs that waited for them start.
  bool start_waiting() {
    if (!std::exchange(freed_, false)) return false;
    models_.start_waiting([&](job& j) {
      static_cast<active_job&>(j).hold_instance();
      wake(static_cast<active_job&>(j), device_.now());
    });
    return true;
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

  Policy& policy_;
  Listener& listener_;
  dispatch_options options_;
  job_table jobs_;
  dispatch_statistics statistics_{};
  bool woken_ = false; ///< since the last look for what to evict

private:
  bool freed_ = false; ///< an instance that a job waits for, since the last look
  std::uint64_t next_id_ = 0;
};

} // namespace gsched
