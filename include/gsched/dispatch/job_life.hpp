// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/flight.hpp>
#include <gsched/dispatch/job_table.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/registry.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/dispatch/reservation.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/pad/exploration.hpp>
#include <gsched/pad/side_speed.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/preempt/forecast.hpp>

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
      : registry<Device>(on), policy_(order), listener_(hears), options_(checked(how)),
        reserve_(options_.preemption, on.limits().sms),
        beside_(1 + how.preemption.side.size() + how.preemption.pads, how.preemption.tolerance),
        jobs_(how.reserved_jobs, how.reserved_entries) {
    if (how.preemption.pads) beside_.presume(padding_choice());
  }
  /// Jobs that are still active are dropped without a word to the listener: cancel_all and run
  /// until idle first. Nothing of them may be in flight on the device.
  ~job_life() {
    jobs_.for_each([&](active_job& a) {
      if (a.in_policy) policy_.erase(a);
      if constexpr (follows_work<Policy>) policy_.left(a, false, device_.now());
      static_cast<void>(a.drop_instance());
    });
    if constexpr (requires(client & c) { policy_.forget(c); })
      this->for_each_client([&](client& c) { policy_.forget(c); });
  }

  /// As registry does; and what its jobs can reach on side lanes bounds what those are tried for.
  template <class... Built>
  void load(program& p, Built... built) {
    registry<Device>::load(p, std::move(built)...);
    for (std::size_t i = 0; i < options_.preemption.side.size(); ++i)
      beside_.may_reach(i + 1, speed_on(p, options_.preemption.side[i], device_.limits().sms));
    reserve_.load(p);
  }

  // Jobs --------------------------------------------------------------------------------------

  /// Starts a job, keeps it until it may start, or refuses it: the listener hears its end,
  /// maybe before this returns; on_failure before that says so if max_jobs are active. A job that
  /// is held or follows another is asked for by its policy twice: now, and when it may start.
  /// Errors   gsched::error, one line, and no job is made: bad_option for an owner that is missing
  ///          or of another dispatcher; unknown_name for a model that was not added, or was
  ///          removed.
  job_id submit(const job_request& r) {
    this->check(r);
    wait_in_policy_order(models_[r.model], *r.owner);
    active_job* const leader = r.after ? jobs_.find(*r.after) : nullptr;
    const time_point now = device_.now();
    active_job& a = jobs_.take(job_id{next_id_++});
    statistics_.count_submit();
    reserve_.add_model(static_cast<std::size_t>(r.model));
    a.begin(r, models_[r.model], options_.quantum, now);
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
    } else if (!admits(policy_, a, now)) {
      end(a, job_state::rejected, now);
    } else {
      a.held = r.held;
      if (a.held) ++held_;
      a.follows = leader != nullptr;
      if (a.follows) leader->followers.push_back(a);
    }
    return id;
  }

  /// Lets a job start that was submitted as held, once the job that it follows has finished. False
  /// if it is not held, or has ended.
  bool release(job_id id) noexcept {
    active_job* const a = jobs_.find(id);
    if (a == nullptr || !std::exchange(a->held, false)) return false;
    --held_;
    if (!a->follows) enter(*a, device_.now());
    return true;
  }
  /// Active jobs that are held.
  [[nodiscard]] std::size_t held() const noexcept { return held_; }

  /// Ends a job as failed as soon as what is in flight of it has ended, and says why to the
  /// listener at once; false if it has ended already or is about to.
  bool fail(job_id id, std::exception_ptr why) noexcept {
    active_job* const a = jobs_.find(id);
    if (a == nullptr || a->is_ending()) return false;
    const time_point now = device_.now();
    if (a->stop_waiting()) models_.freed(*a->kind);
    listener_.on_failure(*a, std::move(why), now);
    give_up(*a, job_state::failed, now);
    return true;
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
  /// Jobs have ended: those that followed them, or waited until they may start, start or end. False
  /// if there are none; others may come free meanwhile, which any_freed says.
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
        give_up(a, job_state::cancelled, now);
      }
    }
    moved |= models_.start_waiting(device_.now(), [&](job& j) {
      active_job& a = static_cast<active_job&>(j);
      a.hold_instance();
      if (!a.counted) count(a);
      start(a, device_.now());
    });
    return moved;
  }
  [[nodiscard]] bool any_freed() const noexcept { return !freed_.empty() || models_.any_freed(); }

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
      return close(a, now);
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
    if (a.in_policy || a.rides || !a.context.list().has_active() || !may_have_more(a)) return;
    a.size_next(contended(a), options_.quantum, options_.most_quantum);
    a.head = a.context.list().head_expected(quantum_of(a), flight::max_loose);
    a.remaining = a.kind->estimate.remaining(*a.progress);
    policy_.enqueue(a, now);
    a.in_policy = true;
  }

  /// Whether one more segment of the job may be in flight. Copies are counted apart: they take no
  /// SMs, and the results of a job would else wait for its last segment but one to end, with the
  /// work of other jobs submitted in between.
  [[nodiscard]] bool may_have_more(active_job& a) noexcept {
    if (a.alone) return a.flights == 0;
    const std::uint32_t most = options_.segments_per_job;
    if (a.flights < most) return true;
    return (has_copies(a) ? a.copy_flights : a.flights - a.copy_flights) < most;
  }
  /// Copies and sets that a job has next.
  [[nodiscard]] static bool has_copies(active_job& a) noexcept {
    if (a.is_ending()) return false;
    const auto head = a.context.list().head(1);
    return head && head->copies > 0;
  }
  [[nodiscard]] static bool only_copies(const flight& f) noexcept {
    return f.program == no_program &&
           std::all_of(f.operations.begin(), f.operations.end(), [](const operation* op) {
             return op->kind == operation_kind::memcpy || op->kind == operation_kind::memset;
           });
  }

  /// Forgets what was not dispatched and ends the job once nothing of it is in flight. O(1) a
  /// launch, a program being one, and into a pool: there is nothing to put off to another thread.
  void give_up(active_job& a, job_state how, time_point now) noexcept {
    if (std::exchange(a.in_policy, false)) policy_.erase(a);
    a.ending = how;
    a.context.cancel();
    a.context.list().drop_pending();
    close(a, now);
  }

  /// Ends a job that gave up, once nothing of it is in flight; first it runs what was preempted
  /// half way.
  void close(active_job& a, time_point now) noexcept {
    if (a.flights > 0 || a.in_policy) return;
    if (a.remainders.empty()) return end(a, a.ending, now);
    a.head = a.remainders.back().what.front()->expected;
    policy_.enqueue(a, now);
    a.in_policy = true;
  }

  /// It cannot run beside real-time work, now: it comes back when the others' lanes are open, or
  /// when more real-time work has come.
  void pass_over(active_job& a) noexcept {
    if (!a.passed_over_hook.is_linked()) passed_over_.push_back(a);
  }
  void offer_passed_over(time_point now) noexcept {
    while (!passed_over_.empty()) {
      active_job& a = passed_over_.front();
      passed_over_.pop_front();
      a.is_ending() ? close(a, now) : offer(a, now);
    }
  }

  /// Jobs of that class, or all, have no lane any more.
  void fail_all(std::optional<service_class> of, time_point now) noexcept {
    jobs_.for_each([&](active_job& a) {
      if (of && a.service != *of) return;
      if (!a.is_ending() && !a.held && !a.follows) device_failed(a, errc::device_failed, now);
    });
  }
  void device_failed(active_job& a, std::error_code why, time_point now) noexcept {
    listener_.on_failure(a, failure_of(device_, why), now);
    give_up(a, job_state::failed, now);
  }

  void end(active_job& a, job_state how, time_point now) noexcept {
    assert(!a.in_policy && a.flights == 0);
    a.state = how;
    if (a.drop_instance()) models_.freed(*a.kind);
    if constexpr (follows_work<Policy>) policy_.left(a, how == job_state::finished, now);
    if (std::exchange(a.held, false)) --held_;
    --a.kind->jobs;
    statistics_.count_end(how);
    a.passed_over_hook.unlink();
    a.follower_hook::unlink();
    free_followers(a, how);
    if (std::exchange(a.counted, false)) {
      --active_[static_cast<std::size_t>(a.service)];
      real_time_left_ -= a.to_end;
    }
    if (is_real_time(a) && how == job_state::finished && a.dispatched)
      beside_.ended(a.side_epoch, {a.ended_expected, a.ended_took, now - a.arrival});
    reserve_.ended(a.id, how == job_state::finished, a.ended_expected, a.ended_took);
    a.kind->estimate.end(*a.progress, how == job_state::finished);
    jobs_.remove(a);
    listener_.on_end(a, a.user, now);
    a.context.reset();
    jobs_.give_back(a);
  }

  /// What a job's next segment may take.
  [[nodiscard]] duration quantum_of(const active_job& a) const noexcept {
    if (is_real_time(a) && options_.preemption.real_time_lanes > 0)
      return std::min(policy_.slice(a), options_.preemption.real_time_quantum);
    const duration own = std::min(policy_.slice(a), a.quantum);
    return is_real_time(a) ? own : std::min(own, most_best_effort_);
  }

  /// Its next operations, of at most about `most`; only jobs that have some are in the policy.
  [[nodiscard]] cut next_of(active_job& a, flight& f, duration most) noexcept {
    if (a.is_ending()) {
      const auto& r = a.remainders.back();
      f.remainder = true;
      return {stream_default, r.program, r.at, r.what, r.what.front()->expected, false};
    }
    const auto c = a.context.list().try_cut(std::min(quantum_of(a), most), f.loose);
    assert(c && !c->operations.empty());
    return *c;
  }

  /// Work of a job is about to be submitted. The listener hears if it seems to be the last: the
  /// body has returned, or has promised that, or it waits in a synchronous call and, as jobs of its
  /// model go, at most an eighth as much work is left as this: by what was learned of it, too, as
  /// an operation launched without an expected time says nothing of its own.
  void count_dispatched(active_job& a, const cut& c, time_point now) noexcept {
    const estimator& e = a.kind->estimate;
    const duration before = e.remaining(*a.progress);
    a.kind->estimate.dispatched(*a.progress, c.program, c.first, c.operations);
    if (!c.last_work || a.announced) return;
    if (!a.context.launches_no_more()) {
      const duration left = e.remaining(*a.progress);
      if (!e.means().knows_jobs() || left * 8 > std::max(c.expected, before - left)) return;
    }
    a.announced = true;
    listener_.on_almost_finished(a, a.user, now);
  }

  /// Work of a real-time job has ended, that took so long on its lane, if that is known.
  void count_real_time(active_job& a, duration expected, std::optional<duration> took) noexcept {
    const duration gone = std::clamp(expected, duration::zero(), a.to_end);
    a.to_end -= gone;
    real_time_left_ -= gone;
    if (!took) return;
    a.ended_expected += expected;
    a.ended_took += *took;
  }

  /// What beside_ calls it that real-time programs are padded.
  [[nodiscard]] std::size_t padding_choice() const noexcept {
    return 1 + options_.preemption.side.size();
  }

  /// Active jobs of a class that can run: of real-time jobs, those that wait for an instance do
  /// not count. Who holds it may be a best-effort job, and must be let on.
  [[nodiscard]] std::size_t active(service_class of) const noexcept {
    return active_[static_cast<std::size_t>(of)];
  }

  [[nodiscard]] static bool is_real_time(const job& j) noexcept {
    return j.service == service_class::real_time;
  }

  Policy& policy_;
  Listener& listener_;
  dispatch_options options_;
  reservation reserve_;                           ///< of SMs, from long best-effort work
  arrival_forecast arrivals_;                     ///< of real-time jobs
  exploration beside_;                            ///< of real-time jobs
  duration most_best_effort_ = run_to_completion; ///< of a best-effort segment
  duration real_time_left_{};                     ///< of what the active real-time jobs have left
  job_table jobs_;
  passed_over_jobs passed_over_; ///< best-effort ones that cannot run beside real-time work now
  dispatch_statistics statistics_{};
  bool woken_ = false; ///< since the last look for what to evict

private:
  [[nodiscard]] static const dispatch_options& checked(const dispatch_options& how) {
    if (how.preemption.real_time_lanes > 0 && !serves_real_time_first<Policy>)
      throw error(errc::bad_option, "preemption.real_time_lanes: policy " +
                                        std::string(Policy::name) +
                                        ", expected one that serves real-time jobs first, such as "
                                        "priority<edf,srpt>");
    return how.checked();
  }

  /// Nothing keeps it from its instance any more. A real-time job counts as arrived only now, as
  /// the forecast is of work that can run.
  void enter(active_job& a, time_point now) noexcept {
    if (is_real_time(a)) arrivals_.arrived(index(a.owner->id), now);
    if (!admits(policy_, a, now)) return end(a, job_state::rejected, now);
    if constexpr (follows_work<Policy>) policy_.entered(a, now);
    const bool starts = a.claim_instance(now);
    if (starts || !is_real_time(a)) count(a);
    if (starts) start(a, now);
  }

  /// It has its instance. Where that is lost, as all of its model's, it fails: the device may use
  /// the instance's memory yet.
  void start(active_job& a, time_point now) noexcept {
    if (!a.kind->instances.all_lost()) return wake(a, now);
    listener_.on_failure(a, no_instance_, now);
    give_up(a, job_state::failed, now);
  }

  /// Set-up of a model's first job, and of a client's first job of that model.
  void wait_in_policy_order(model& m, const client& owner) {
    if (!m.instances.limited()) return;
    if (m.instances.queue() == nullptr)
      m.instances.set_queue(std::make_unique<start_order<Policy>>(policy_));
    m.instances.queue()->prepare(owner);
  }

  /// Keeps those that followed it for the next step, so that no chain of jobs recurses.
  void free_followers(active_job& a, job_state how) noexcept {
    while (!a.followers.empty()) {
      active_job& f = a.followers.front();
      a.followers.pop_front();
      f.followed = how;
      if (how == job_state::finished && f.held)
        f.follows = false; // its release lets it start
      else
        freed_.push_back(f);
    }
  }

  void count(active_job& a) noexcept {
    a.counted = true;
    ++active_[static_cast<std::size_t>(a.service)];
    if (!is_real_time(a)) return;
    a.to_end = a.total;
    real_time_left_ += a.to_end;
  }

  /// Another job would be served if this one's segment ended sooner.
  [[nodiscard]] bool contended(const active_job& a) const noexcept {
    if constexpr (serves_real_time_first<Policy>)
      if (options_.preemption.real_time_lanes > 0) return policy_.size(a.service) > 0;
    return policy_.size() > 0;
  }

  [[nodiscard]] static std::exception_ptr unfinished(const char* how) {
    return std::make_exception_ptr(error(errc::not_reached, std::string("its predecessor ") + how));
  }

  std::array<std::size_t, 2> active_{}; ///< by class
  std::size_t held_ = 0;
  follower_jobs freed_; ///< the job that they followed has ended
  /// What the listener hears of a job that follows one which ended so; made once, as making one
  /// allocates.
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
  std::uint64_t next_id_ = 0;
};

} // namespace gsched
