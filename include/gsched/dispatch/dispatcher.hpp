// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/detail/class_isolation.hpp>
#include <gsched/dispatch/detail/class_load.hpp>
#include <gsched/dispatch/detail/colocation.hpp>
#include <gsched/dispatch/detail/completions.hpp>
#include <gsched/dispatch/detail/corun_queue.hpp>
#include <gsched/dispatch/detail/flight.hpp>
#include <gsched/dispatch/detail/instances.hpp>
#include <gsched/dispatch/detail/job_lifecycle.hpp>
#include <gsched/dispatch/detail/lane_feed.hpp>
#include <gsched/dispatch/detail/policy_queue.hpp>
#include <gsched/dispatch/detail/registry.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/estimate.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/preempt/reserve_choice.hpp>
#include <gsched/preempt/statistics.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gsched {

/// Schedules jobs in software and feeds one device: the loop that connects waitlists, policy,
/// accountant and device.
///
/// Source   Ng, Demoulin, Liu, SOSP'23, sections 4 to 6, doi:10.1145/3600006.3613163.
/// Differs  the unit of dispatch is a segment of about one quantum, not a kernel, because a launch
///          costs the host as much time as a small kernel runs. Queued work is limited in time, for
///          each lane, in addition to the accountant's blocks.
/// Order    the operations of a job run in CUDA's order; the policy orders jobs.
/// Errors   a body that throws and a device that fails end the job as failed, and the listener
///          receives the reason; no job is lost: see dispatch_statistics. Set-up and submit throw
///          gsched::error, one line, and change nothing.
/// Cost     one pick, one enqueue and O(lanes) a segment; no allocation once the largest number of
///          jobs, launches and frames has been in use.
/// Threads  one owner; other threads pass requests to the owner through a queue such as inbox.
template <class Policy, device Device, accountant Accountant, listener Listener = silent_listener>
class dispatcher {
  static_assert(
      // an assertion instead of a constraint, because it names the missing member
      policy_requirements<Policy>::hold);

public:
  /// All arguments passed by reference outlive the dispatcher.
  dispatcher(Device& on, Policy& order, Accountant& account, Listener& listens,
             const dispatch_options& how = {})
      : device_(on), policy_(order), listener_(listens), options_(checked(how)),
        registry_(on.limits()), apart_(order, options_, statistics_.neighbours),
        load_(options_.preemption, on.limits().sms), feed_(on, account, options_),
        isolation_(on, feed_, listens, options_, load_),
        jobs_(on, policy_, listens, options_, registry_, load_, apart_, statistics_),
        colocation_(policy_, listens, options_, jobs_, load_, statistics_),
        completions_(on, listens, registry_, load_, feed_, isolation_, jobs_, colocation_,
                     statistics_) {}
  dispatcher(const dispatcher&) = delete;
  dispatcher& operator=(const dispatcher&) = delete;
  /// Drops active jobs without calling the listener: call cancel_all and run until idle first.
  /// Nothing of them may be in flight on the device.
  ~dispatcher() = default;

  // Programs, models, clients -----------------------------------------------------------------

  /// Loads a captured graph on the device. The program keeps its address until it is unloaded or
  /// the dispatcher is destroyed. `built`: the result of the device's build(p), if it was called.
  ///
  /// Errors   does_not_fit: one of its kernels fits on no SM; and those of the device.
  template <class... Built>
    requires(sizeof...(Built) <= 1)
  void load(program& p, Built... built) {
    program_footprint asks = registry_.footprint_of(p);
    device_.load(p, std::move(built)...);
    registry_.add_program(p, std::move(asks));
    load_.add_program(p);
  }
  /// Reverts load. No active job may launch the program, no model may expect it, and no padded
  /// program may be added for it. Returns what the device's `unload` returns. A device without
  /// `unload` keeps what it has built.
  auto unload(program& p) {
    const program_id id = p.id();
    if constexpr (!requires { device_.unload(p); }) {
      registry_.remove_program(id);
    } else if constexpr (std::is_void_v<decltype(device_.unload(p))>) {
      device_.unload(p); // may refuse
      registry_.remove_program(id);
    } else {
      auto built = device_.unload(p); // may refuse
      registry_.remove_program(id);
      return built;
    }
  }

  /// Adds a model: a kind of job with its body, which keeps its address until the model is removed
  /// or the dispatcher is destroyed, and the loaded programs that its jobs are expected to run.
  /// With a limited number of instances, at most that many of its jobs are between start and end,
  /// each with an instance number of its own (job_context::instance). The other jobs wait before
  /// their body starts, in the order of the policy.
  ///
  /// Errors   bad_option: a program that is not loaded, or more than 2^20 instances.
  [[nodiscard]] model_id add_model(std::string name, job_body body,
                                   std::span<const program* const> expected,
                                   std::uint32_t instances = instance_pool::unlimited) {
    return registry_.add_model(std::move(name), body, expected, instances);
  }
  [[nodiscard]] model_id add_model(std::string name, job_body body,
                                   const program* expected = nullptr,
                                   std::uint32_t instances = instance_pool::unlimited) {
    return add_model(std::move(name), body, {&expected, expected != nullptr ? 1u : 0u}, instances);
  }
  /// Adds a loaded program with the same operations as `of`, which jobs of the model run in place
  /// of `of`: another instance of a captured graph.
  void add_replica(model_id m, const program& replica, const program& of) {
    registry_.add_replica(m, replica, of);
  }
  /// From now on, no job of `a` starts while a job of `b` is between its start and its end, and the
  /// reverse. With a == b the jobs of the model run one after another, however many instances it
  /// has. A job that cannot start waits as for an instance. Among the waiting jobs of models that
  /// exclude one another, none overtakes another in the order by class, deadline and arrival,
  /// whatever the policy.
  ///
  /// Errors   unknown_name: a model that does not exist.
  void exclude(model_id a, model_id b) { registry_.exclude(a, b, device_.now()); }
  /// Adds `padded`, which runs in place of `real_time` when it carries operations [from, to) of
  /// `corunner`: all operations of both, each in its own order. All three are loaded. It replaces
  /// an earlier padded program for the same real-time program, co-runner and `from`. Programs of
  /// several instances may share a padded one, unless two of them can be in flight at once and the
  /// padded program cannot.
  ///
  /// Errors   bad_option: without preemption_options::pads, no or too many operations of the
  ///          co-runner, or a padded program of another size than the real-time program.
  void add_padded(const program& real_time, const program& corunner, std::uint32_t from,
                  std::uint32_t to, const program& padded) {
    colocation_.add(real_time, corunner, from, to, padded);
  }
  /// Removes a model and frees its state. It has no active job; its id is not used again.
  ///
  /// Errors   bad_option: an unknown model, or one with active jobs.
  void remove(model_id id) {
    registry_.remove_model(id);
    apart_.remove(id);
  }
  /// The learned estimates of the work of a model's jobs.
  [[nodiscard]] const estimator& estimate_of(model_id id) const noexcept {
    return registry_[id].estimate;
  }

  /// Adds a client, which keeps its address while the dispatcher lives.
  ///
  /// Errors   bad_option: a weight that is not a finite number above 0.
  [[nodiscard]] client& add_client(double weight = 1.0) {
    client& c = registry_.add_client(weight);
    policy_.add_client(c);
    return c;
  }

  // Jobs --------------------------------------------------------------------------------------

  /// Submits a job: starts it, stores it until it may start, or rejects it. The listener is
  /// notified of its end, possibly before this returns; if max_jobs are active, on_failure is
  /// called before. The policy's admission is asked twice for a job that is held or follows another
  /// one: now, and when it may start.
  ///
  /// Errors   gsched::error, one line, and no job is created: bad_option for an owner that is
  ///          missing or belongs to another dispatcher; unknown_name for a model that does not
  ///          exist.
  job_id submit(const job_request& r) { return jobs_.submit(r); }
  /// Releases a job that was submitted as held; it starts once the job that it follows has
  /// finished. Returns false if it is not held or has ended.
  bool release(job_id id) noexcept { return jobs_.release(id); }
  /// Ends a job as failed once its in-flight work has ended, and notifies the listener of the
  /// reason at once. Returns false if the job has ended or is about to.
  bool fail(job_id id, std::exception_ptr why) noexcept { return jobs_.fail(id, std::move(why)); }
  /// Ends a job as cancelled once its in-flight work has ended. Returns false if the job has ended
  /// or is about to.
  bool cancel(job_id id) noexcept { return jobs_.cancel(id); }
  void cancel_all() noexcept { jobs_.cancel_all(); }

  // The loop ----------------------------------------------------------------------------------

  /// Processes the device's events and fills its lanes; never waits. Returns false if there was
  /// nothing to do: the caller then calls device.wait, until step_by() at the latest.
  bool step() {
    bool moved = completions_.poll();
    moved |= look_for_lost();
    moved |= jobs_.start_freed();
    if (feed_.apart()) isolate();
    if (options_.evict_on_preempt && jobs_.take_woken()) evict_for_better();
    while (dispatch_one()) moved = true;
    return moved || jobs_.any_freed();
  }
  /// The time at which step() is to be called again even without device events, because in-flight
  /// work may be lost by then.
  [[nodiscard]] time_point step_by() const noexcept {
    return feed_.empty() ? no_deadline : look_again_;
  }

  // State -------------------------------------------------------------------------------------

  /// Whether no job is active.
  [[nodiscard]] bool idle() const noexcept { return jobs_.idle(); }
  /// Whether nothing is in flight. If jobs are active, none of them is held and step() has nothing
  /// to do, they wait for something that never happens.
  [[nodiscard]] bool nothing_in_flight() const noexcept { return feed_.empty(); }
  /// The number of active jobs that are held.
  [[nodiscard]] std::size_t held() const noexcept { return jobs_.held(); }
  [[nodiscard]] const dispatch_statistics& statistics() const noexcept { return statistics_; }
  /// How much of its lanes is in use, until now.
  [[nodiscard]] lane_statistics use() noexcept { return feed_.use(device_.now()); }
  /// Counters of the isolation between the classes.
  [[nodiscard]] const preemption_statistics& preemption() const noexcept {
    return isolation_.statistics();
  }
  /// The number of SMs that long best-effort work of the model leaves unused while real-time jobs
  /// are expected.
  [[nodiscard]] sm_count reserved(model_id m) const noexcept {
    return load_.reserve().chosen(static_cast<std::size_t>(m));
  }
  /// The state of that choice. Requires a model that has had a job, and
  /// preemption_options::reserve.
  [[nodiscard]] const reserve_choice& choice_of(model_id m) const noexcept {
    return load_.reserve().choice_of(static_cast<std::size_t>(m));
  }

private:
  using feed = lane_feed<Device, Accountant>;
  using padding = colocation<Policy, Device, Listener>;

  [[nodiscard]] static const dispatch_options& checked(const dispatch_options& how) {
    if (how.preemption.real_time_lanes > 0 && !serves_real_time_first<Policy>)
      throw error(errc::bad_option, "preemption.real_time_lanes: policy " +
                                        std::string(Policy::name) +
                                        ", expected one that serves real-time jobs first, such as "
                                        "priority<edf,srpt>");
    return how.checked();
  }

  /// Gives up segments whose limit has passed, and jobs that have no lane left. O(lanes) each time
  /// a limit has passed.
  bool look_for_lost() noexcept {
    const time_point now = device_.now();
    bool any = false;
    if (now >= look_again_) {
      look_again_ = saturating_add(now, options_.segment_limit);
      lane_set& lanes = feed_.lanes();
      for (std::uint32_t place = 0; place < lanes.size(); ++place) {
        flight* const f = lanes.oldest(place);
        if (f == nullptr || !isolation_.may_run(place)) continue;
        const time_point limit = feed_.limit_of(*f);
        if (now >= limit) {
          completions_.lose(*f, now);
          any = has_lost_ = true;
          look_again_ = now; // the segment behind it has a limit of its own
        } else {
          look_again_ = std::min(look_again_, limit);
        }
      }
    }
    if (has_lost_) {
      fail_without_lanes(feed::best_effort, service_class::best_effort, now);
      if (feed_.apart()) fail_without_lanes(feed::real_time, service_class::real_time, now);
    }
    return any;
  }
  void fail_without_lanes(std::size_t group, service_class of, time_point now) noexcept {
    if (!feed_.lanes().all_lost(group)) return;
    jobs_.fail_all_by_device(feed_.apart() ? std::optional(of) : std::nullopt, now);
  }

  /// Called before a round of decisions if real-time jobs have lanes of their own.
  void isolate() noexcept {
    const time_point now = device_.now();
    if (isolation_.update(completions_.back_at(now))) jobs_.offer_passed_over(now);
    isolation_.adapt();
  }

  /// Evicts segments that have not started if the policy prefers another job. If real-time jobs
  /// have lanes of their own, a job is evicted only for a job of its own class.
  void evict_for_better() noexcept {
    if (policy_.size() == 0) return;
    const time_point now = device_.now();
    feed_.evict(
        [&](const flight& f) {
          return isolation_.may_evict(f) && policy_.wants_preempt(*f.owner, now);
        },
        [&](flight& f) { completions_.take_back(f, false, now); });
  }

  /// The group of lanes to fill next, for which a job waits.
  [[nodiscard]] std::optional<std::size_t> next_group() const noexcept {
    if constexpr (serves_real_time_first<Policy>) {
      if (feed_.apart()) {
        if (policy_.size(service_class::real_time) > 0 && feed_.wants_more(feed::real_time))
          return feed::real_time;
        if (policy_.size(service_class::best_effort) == 0) return std::nullopt;
        const std::optional<std::size_t> to = isolation_.best_effort_group();
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
        return policy_.pick(of, now);
      }
    }
    return policy_.pick(now);
  }

  /// Picks a job and submits its next segment. Returns false if no job waits or no more work is
  /// wanted.
  bool dispatch_one() noexcept {
    if (apart_.changed()) jobs_.return_fitting(device_.now());
    const std::optional<std::size_t> group = next_group();
    if (!group) return false;
    const time_point now = device_.now();
    active_job& a = pick_for(*group, now);
    ++statistics_.decisions;
    if (a.charged && !a.is_ending()) a.head = a.next.expected;
    const segment_terms terms = isolation_.terms_for(a, *group, now);
    if (!isolation_.admits(a, *group, terms, now)) {
      if (*group >= feed::first_side) jobs_.pass_over(a);
      return true;
    }
    bool only_copies = *group == feed_.copies();
    if (!only_copies && !apart_.admits(a, now)) {
      if (!a.has_copies()) {
        apart_.keep(a, now);
        return true;
      }
      only_copies = true; // they take no SMs
    }
    flight& f = feed_.take(a);
    f.last = terms.alone;
    f.has_long = terms.is_long;
    const cut c = only_copies ? jobs_.copies_of(a, f) : jobs_.next_of(a, f, terms.most);
    segment s = feed_.plan(f, c, *group, terms.alternate, now);
    if (!f.remainder)
      jobs_.count_dispatched(
          a, c, [&] { return feed_.ends_in(f, now); }, now);
    const bool pads = *group == feed::real_time && isolation_.pads() && !feed_.full();
    const auto with = pads ? colocation_.find(c, now) : std::nullopt;
    if (with) feed_.pad(f, s, *with->by->runs);
    if (const std::error_code e = feed_.submit(f, s, registry_)) {
      if (with) jobs_.advance(*with->corunner, now);
      refused(f, e, now);
      return true;
    }
    isolation_.submitting(a, with.has_value(), now);
    jobs_.flight_began(f, now);
    isolation_.submitted(a, f, *group, terms, now);
    ++statistics_.segments;
    listener_.on_submit(a, s, f.expected, now);
    if (with) {
      colocation_.attach(*with, f, feed_.take(*with->corunner), s.lane, now);
      isolation_.submitted_padded(f.carries->operations.size(), now);
    }
    if (!a.is_ending()) jobs_.offer(a, now);
    return true;
  }

  /// The device did not accept a segment.
  void refused(flight& f, std::error_code why, time_point now) noexcept {
    active_job& a = *f.owner;
    if (!f.remainder) jobs_.undo(f, 0);
    a.forget_remainder(f.program, f.first); // it can never run
    feed_.drop(f);
    a.is_ending() ? jobs_.close(a, now) : jobs_.fail_by_device(a, why, now);
  }

  // Each part knows the parts before it, and none of those behind it.
  Device& device_;
  policy_queue<Policy> policy_;
  Listener& listener_;
  dispatch_options options_;
  dispatch_statistics statistics_{};
  registry registry_;
  corun_queue<Policy> apart_;
  class_load load_;
  feed feed_;
  class_isolation<Device, Accountant, Listener> isolation_;
  job_lifecycle<Policy, Device, Listener> jobs_;
  padding colocation_;
  completions<Policy, Device, Accountant, Listener> completions_;
  time_point look_again_{}; ///< next check for lost segments
  bool has_lost_ = false;   ///< whether a segment was ever lost
};

} // namespace gsched
