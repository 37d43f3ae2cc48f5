// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/detail/class_load.hpp>
#include <gsched/dispatch/detail/corun_queue.hpp>
#include <gsched/dispatch/detail/flight.hpp>
#include <gsched/dispatch/detail/job_table.hpp>
#include <gsched/dispatch/detail/policy_queue.hpp>
#include <gsched/dispatch/detail/registry.hpp>
#include <gsched/dispatch/detail/start_order.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/job/waitlist.hpp>
#include <gsched/policy/policy.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace gsched {

/// The life cycle of jobs: admission, start, progress, entering and leaving the policy, end. Of
/// segments it knows only the counts of a job's segments in flight.
///
/// Threads  one owner; no locking.
template <policy Policy, device Device, listener Listener>
class job_lifecycle {
public:
  /// All arguments passed by reference outlive it.
  job_lifecycle(const Device& on, policy_queue<Policy>& order, Listener& listens,
                const dispatch_options& how, registry& known, class_load& load,
                corun_queue<Policy>& apart, dispatch_statistics& counts)
      : device_(on), policy_(order), listener_(listens), options_(how), registry_(known),
        load_(load), apart_(apart), statistics_(counts),
        jobs_(how.reserved_jobs, how.reserved_entries) {}
  job_lifecycle(const job_lifecycle&) = delete;
  job_lifecycle& operator=(const job_lifecycle&) = delete;
  /// Drops active jobs without calling the listener. Nothing of them may be in flight.
  ~job_lifecycle() {
    jobs_.for_each([&](active_job& a) {
      withdraw(a);
      policy_.left(a, false, device_.now());
      static_cast<void>(a.drop_instance());
    });
  }

  // Interface of the user: see dispatcher ------------------------------------------------------

  job_id submit(const job_request& r) {
    registry_.check(r);
    wait_in_policy_order(registry_[r.model], *r.owner);
    apart_.prepare(registry_[r.model], *r.owner);
    active_job* const leader = r.after ? jobs_.find(*r.after) : nullptr;
    const time_point now = device_.now();
    active_job& a = jobs_.take(job_id{next_id_++});
    statistics_.count_submit();
    load_.add_model(r.model);
    a.begin(r, registry_[r.model], options_.quantum, now);
    policy_.begin(a);
    ++a.kind->jobs;
    const job_id id = a.id;
    listener_.on_arrival(a, a.user, now);
    if (jobs_.size() > options_.max_jobs) {
      ++statistics_.over_limit;
      listener_.on_failure(a, too_many_, now);
      end(a, job_state::rejected, now);
      return id;
    }
    if (!r.held && leader == nullptr) {
      enter(a, now);
    } else if (!policy_.admits(a, now)) {
      end(a, job_state::rejected, now);
    } else {
      a.held = r.held;
      if (a.held) ++held_;
      a.follows = leader != nullptr;
      if (a.follows) leader->followers.push_back(a);
    }
    return id;
  }

  bool release(job_id id) noexcept {
    active_job* const a = jobs_.find(id);
    if (a == nullptr || !std::exchange(a->held, false)) return false;
    --held_;
    if (!a->follows) enter(*a, device_.now());
    return true;
  }
  [[nodiscard]] std::size_t held() const noexcept { return held_; }

  bool fail(job_id id, std::exception_ptr why) noexcept {
    active_job* const a = jobs_.find(id);
    if (a == nullptr || a->is_ending()) return false;
    const time_point now = device_.now();
    if (a->stop_waiting()) registry_.freed(*a->kind);
    fail(*a, std::move(why), now);
    return true;
  }

  bool cancel(job_id id) noexcept {
    active_job* a = jobs_.find(id);
    if (a == nullptr || a->is_ending()) return false;
    abandon(*a, job_state::cancelled, device_.now());
    return true;
  }
  void cancel_all() noexcept {
    jobs_.for_each([&](active_job& a) {
      if (!a.is_ending()) abandon(a, job_state::cancelled, device_.now());
    });
  }

  [[nodiscard]] bool idle() const noexcept { return jobs_.size() == 0; }

  // Progress ------------------------------------------------------------------------------------

  /// Starts or ends the jobs that followed an ended job, and starts jobs for which an instance is
  /// free. Returns false if there are none.
  bool start_freed() noexcept {
    bool moved = false;
    for (; !freed_.empty(); moved = true) {
      active_job& a = freed_.front();
      freed_.pop_front();
      a.follows = false;
      const time_point now = device_.now();
      if (a.followed == job_state::finished) {
        enter(a, now);
      } else {
        listener_.on_failure(a, unfinished_[static_cast<std::size_t>(a.followed)], now);
        abandon(a, job_state::cancelled, now);
      }
    }
    moved |= registry_.start_waiting(device_.now(), [&](waiting_job& j) {
      active_job& a = static_cast<active_job&>(j);
      a.hold_instance();
      load_.count(a);
      start(a, device_.now());
    });
    return moved;
  }
  /// Whether start_freed() has something to do.
  [[nodiscard]] bool any_freed() const noexcept { return !freed_.empty() || registry_.any_freed(); }

  /// Called after any change of a job: runs its host functions and its body until they wait, then
  /// ends the job or offers it to the policy.
  void advance(active_job& a, time_point now) noexcept {
    if (a.is_ending()) {
      a.context.list().drop_pending();
      return close(a, now);
    }
    statistics_.host_calls += a.advance();
    if (a.is_ending()) return advance(a, now); // it cancelled itself
    if (const auto why = a.context.failure()) return fail(a, why, now);
    if (a.context.finished() && a.context.list().idle()) return end(a, job_state::finished, now);
    offer(a, now);
  }

  /// A segment of the job has ended and is no longer in flight.
  void segment_ended(active_job& a, bool done, time_point now) noexcept {
    if (!done && !a.is_ending()) return fail_by_device(a, errc::device_failed, now);
    wake(a, now);
  }

  /// Enqueues the job in the policy if it has work that may start and may have more in flight.
  void offer(active_job& a, time_point now) noexcept {
    if (a.in_policy || a.kept_apart || a.colocated || !a.context.list().has_active() ||
        !may_have_more(a))
      return;
    a.size_next(contended(a), options_.quantum, options_.most_quantum);
    a.next = a.context.list().measure(quantum_of(a), flight::max_loose);
    a.head = a.charged ? duration{1} : a.next.expected;
    a.remaining = a.kind->estimate.remaining(*a.progress);
    a.returned = false;
    policy_.enqueue(a, now);
  }
  /// Removes the job from the policy, or from the queue of those kept apart, if it is there,
  /// because its facts are about to change.
  void withdraw(active_job& a) noexcept {
    policy_.erase(a);
    apart_.withdraw(a);
  }

  /// Returns jobs that were kept apart from others to the policy, if they fit now.
  void return_fitting(time_point now) noexcept {
    apart_.return_fitting(now,
                          [&](active_job& a) { a.is_ending() ? close(a, now) : offer(a, now); });
  }

  /// Cuts the next operations of a job that the policy has picked, of at most about `most`.
  [[nodiscard]] cut next_of(active_job& a, flight& f, duration most) noexcept {
    if (a.is_ending()) {
      const auto& r = a.remainders.back();
      f.remainder = true;
      return {stream_default, r.program, r.at, r.what, r.what.front()->expected, false};
    }
    const auto c = a.context.list().try_cut(a.next, std::min(quantum_of(a), most), f.loose);
    assert(c && !c->operations.empty());
    return *c;
  }
  /// Cuts the copies and memsets that are next in a job; a.has_copies() must hold.
  [[nodiscard]] static cut copies_of(active_job& a, flight& f) noexcept {
    waitlist& list = a.context.list();
    return list.take_head(list.head(flight::max_loose)->copies, f.loose);
  }

  /// A cut of the job is about to be submitted. Calls on_almost_finished if the cut seems to be the
  /// job's last: the body has returned, or has promised to launch nothing more, or it waits in a
  /// synchronous call and, by the estimates of its model, at most an eighth of this cut's work is
  /// left. The estimates are used because an operation that was launched without an expected time
  /// does not tell. `ends_in()` is the expected time until the cut's work ends.
  template <class EndsIn>
  void count_dispatched(active_job& a, const cut& c, EndsIn ends_in, time_point now) noexcept {
    const estimator& e = a.kind->estimate;
    const duration before = e.remaining(*a.progress);
    a.kind->estimate.dispatched(*a.progress, c.program, c.first, c.operations);
    if (!c.last_work || a.announced) return;
    if (!a.context.launches_no_more()) {
      const duration left = e.remaining(*a.progress);
      if (!e.means().knows_jobs() || left * 8 > std::max(c.expected, before - left)) return;
    }
    a.announced = true;
    listener_.on_almost_finished(a, a.user, ends_in(), now);
  }

  void flight_began(flight& f, time_point now) noexcept {
    active_job& a = *f.owner;
    if (!f.remainder) policy_.submitted(a, f.expected, now);
    f.copies = only_copies(f);
    a.copy_flights += f.copies;
    load_.flight_began(a);
    apart_.began(a, f, now);
  }
  /// `done`: it ended and was not taken back.
  void flight_ended(flight& f, bool done, time_point now) noexcept {
    active_job& a = *f.owner;
    if (!f.remainder) policy_.landed(a, f.expected, done, now);
    a.copy_flights -= f.copies;
    load_.flight_ended(a);
    apart_.ended(a, f);
  }
  /// Returns dispatched operations of a flight that have not run to the job's waitlist.
  static void undo(flight& f, std::uint32_t ended) noexcept {
    active_job& a = *f.owner;
    const auto left = f.operations.subspan(ended);
    a.context.list().undo(f.stream, left.size());
    a.kind->estimate.undone(*a.progress, f.program, f.first + ended, left);
  }

  // Jobs that are passed over -----------------------------------------------------------------

  /// The job, which is not in the policy, cannot run beside real-time work now. offer_passed_over()
  /// enqueues it again.
  void pass_over(active_job& a) noexcept {
    if (!a.passed_over_hook.is_linked()) passed_over_.push_back(a);
  }
  [[nodiscard]] passed_over_jobs& passed_over() noexcept { return passed_over_; }
  void offer_passed_over(time_point now) noexcept {
    while (!passed_over_.empty()) {
      active_job& a = passed_over_.front();
      passed_over_.pop_front();
      a.is_ending() ? close(a, now) : offer(a, now);
    }
  }

  /// Whether a job was enqueued with nothing in flight since the last call: it may preempt others.
  /// A job whose segment was taken back does not count, so that two jobs never evict each other
  /// alternately.
  [[nodiscard]] bool take_woken() noexcept { return std::exchange(woken_, false); }

  // Ends ----------------------------------------------------------------------------------------

  /// Ends a job that is_ending() once nothing of it is in flight. Before that, it runs the rest of
  /// partly executed operations.
  void close(active_job& a, time_point now) noexcept {
    if (a.flights > 0 || a.in_policy || a.kept_apart) return;
    if (a.remainders.empty()) return end(a, a.ending, now);
    a.head = a.remainders.back().what.front()->expected;
    a.returned = false;
    policy_.enqueue(a, now);
  }
  void fail(active_job& a, std::exception_ptr why, time_point now) noexcept {
    listener_.on_failure(a, std::move(why), now);
    abandon(a, job_state::failed, now);
  }
  void fail_by_device(active_job& a, std::error_code why, time_point now) noexcept {
    fail(a, failure_of(device_, why), now);
  }
  /// Jobs of that class, or all jobs, have no lane any more.
  void fail_all_by_device(std::optional<service_class> of, time_point now) noexcept {
    jobs_.for_each([&](active_job& a) {
      if (of && a.service != *of) return;
      if (!a.is_ending() && !a.held && !a.follows) fail_by_device(a, errc::device_failed, now);
    });
  }

private:
  /// The job may start as soon as it has an instance.
  void enter(active_job& a, time_point now) noexcept {
    load_.arrived(a, now);
    if (!policy_.admits(a, now)) return end(a, job_state::rejected, now);
    policy_.entered(a, now);
    const bool starts = a.claim_instance(now);
    if (starts || !class_load::is_real_time(a)) load_.count(a);
    if (starts) start(a, now);
  }

  /// The job has its instance. If the instance is lost, as all of its model are, the job fails,
  /// because the device may still use the instance's memory.
  void start(active_job& a, time_point now) noexcept {
    if (!a.kind->instances.all_lost()) return wake(a, now);
    fail(a, no_instance_, now);
  }

  void wake(active_job& a, time_point now) noexcept {
    advance(a, now);
    if (a.in_policy && a.flights == 0) woken_ = true;
  }

  /// Drops the work that was not dispatched, and ends the job once nothing of it is in flight. O(1)
  /// a launch (a program is one), without freeing memory.
  void abandon(active_job& a, job_state how, time_point now) noexcept {
    withdraw(a);
    a.ending = how;
    a.context.cancel();
    a.context.list().drop_pending();
    close(a, now);
  }

  void end(active_job& a, job_state how, time_point now) noexcept {
    assert(!a.in_policy && !a.kept_apart && a.flights == 0);
    a.state = how;
    apart_.stop_wait(a, now);
    if (a.drop_instance()) registry_.freed(*a.kind);
    policy_.left(a, how == job_state::finished, now);
    if (std::exchange(a.held, false)) --held_;
    --a.kind->jobs;
    statistics_.count_end(how);
    a.passed_over_hook.unlink();
    a.follower_hook::unlink();
    free_followers(a, how);
    load_.ended(a, how, now);
    a.kind->estimate.end(*a.progress, how == job_state::finished);
    jobs_.remove(a);
    listener_.on_end(a, a.user, now);
    a.context.reset();
    jobs_.give_back(a);
  }

  /// Whether one more segment of the job may be in flight. Copies are counted separately: they take
  /// no SMs, and otherwise the results of a job would wait for its last but one segment, with the
  /// work of other jobs submitted in between.
  [[nodiscard]] bool may_have_more(active_job& a) noexcept {
    if (a.alone) return a.flights == 0;
    const std::uint32_t most = options_.segments_per_job;
    if (a.flights < most) return true;
    return (a.has_copies() ? a.copy_flights : a.flights - a.copy_flights) < most;
  }
  [[nodiscard]] static bool only_copies(const flight& f) noexcept {
    return f.program == no_program &&
           std::all_of(f.operations.begin(), f.operations.end(), [](const operation* op) {
             return op->kind == operation_kind::memcpy || op->kind == operation_kind::memset;
           });
  }

  /// The length of a job's next segment.
  [[nodiscard]] duration quantum_of(const active_job& a) const noexcept {
    duration most = a.quantum;
    if (!class_load::is_real_time(a))
      most = std::min(most, load_.most_best_effort());
    else if (options_.preemption.real_time_lanes > 0)
      most = options_.preemption.real_time_quantum;
    return std::min(policy_.slice(a), most);
  }
  /// Whether another job would be served if this job's segment ended sooner.
  [[nodiscard]] bool contended(const active_job& a) const noexcept {
    if constexpr (serves_real_time_first<Policy>)
      if (options_.preemption.real_time_lanes > 0)
        return policy_.size(a.service) > 0 || (apart_.any() && !class_load::is_real_time(a));
    return policy_.size() > 0 || apart_.any();
  }

  /// Set-up for the first job of a model, and for the first job of a client with that model.
  void wait_in_policy_order(model& m, const client& owner) {
    if (!m.instances.limited()) return;
    if (m.instances.queue() == nullptr)
      m.instances.set_queue(std::make_unique<start_order<Policy>>(policy_.policy()));
    m.instances.queue()->prepare(owner);
  }

  /// Moves the followers of the job to the next step, so that chains of jobs do not recurse.
  void free_followers(active_job& a, job_state how) noexcept {
    while (!a.followers.empty()) {
      active_job& f = a.followers.front();
      a.followers.pop_front();
      f.followed = how;
      if (how == job_state::finished && f.held)
        f.follows = false; // its release starts it
      else
        freed_.push_back(f);
    }
  }

  [[nodiscard]] static std::exception_ptr unfinished(const char* how) {
    return std::make_exception_ptr(error(errc::not_reached, std::string("its predecessor ") + how));
  }

  const Device& device_;
  policy_queue<Policy>& policy_;
  Listener& listener_;
  const dispatch_options& options_;
  registry& registry_;
  class_load& load_;
  corun_queue<Policy>& apart_;
  dispatch_statistics& statistics_;
  job_table<policy_job<Policy>> jobs_;
  passed_over_jobs passed_over_;
  follower_jobs freed_; ///< the job that they followed has ended
  std::size_t held_ = 0;
  bool woken_ = false;
  std::uint64_t next_id_ = 0;
  /// For each end state, the reason that the listener receives for a job whose predecessor ended
  /// so. Created in advance, because creation allocates.
  std::array<std::exception_ptr, 6> unfinished_{nullptr,
                                                nullptr,
                                                nullptr,
                                                unfinished("was rejected"),
                                                unfinished("was cancelled"),
                                                unfinished("failed")};
  std::exception_ptr no_instance_ = std::make_exception_ptr(error(
      errc::device_failed, "all instances of its model have segments that were never reported"));
  std::exception_ptr too_many_ = std::make_exception_ptr(
      error(errc::too_small, std::to_string(options_.max_jobs) +
                                 " jobs are active, expected less for another one (max_jobs)"));
};

} // namespace gsched
