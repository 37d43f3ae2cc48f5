// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/flight.hpp>
#include <gsched/dispatch/landings.hpp>
#include <gsched/dispatch/lane_feed.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/preemptor.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/preempt/statistics.hpp>

#include <algorithm>
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
/// Threads  one owner; other threads hand it their requests by a queue of the owner's, such as
/// inbox.
template <policy Policy, device Device, accountant Accountant, listener Listener = silent_listener>
class dispatcher : public landings<Policy, Device, Accountant, Listener> {
  using life = landings<Policy, Device, Accountant, Listener>;
  using life::active;
  using life::arrivals_;
  using life::back_at;
  using life::beside_;
  using life::close;
  using life::device_;
  using life::device_failed;
  using life::feed_;
  using life::hear;
  using life::listener_;
  using life::models_;
  using life::offer;
  using life::offer_passed_over;
  using life::options_;
  using life::pass_over;
  using life::policy_;
  using life::preempt_;
  using life::real_time_left_;
  using life::reserve_;
  using life::start_freed;
  using life::statistics_;
  using life::take_back;
  using life::woken_;
  using typename life::carried;
  using typename life::feed;

public:
  /// All that is passed by reference outlives the dispatcher.
  dispatcher(Device& on, Policy& order, Accountant& account, Listener& hears,
             const dispatch_options& how = {})
      : life(on, order, account, hears, how) {}
  dispatcher(const dispatcher&) = delete;
  dispatcher& operator=(const dispatcher&) = delete;

  // The loop ----------------------------------------------------------------------------------

  /// Takes what the device reports, and fills its lanes; never waits. False if there was nothing to
  /// do: then it is time for device.wait, until step_by() at most.
  bool step() {
    bool moved = hear();
    moved |= look_for_lost();
    moved |= start_freed();
    keep_apart();
    if (options_.evict_on_preempt && std::exchange(woken_, false)) evict_for_better();
    while (dispatch_one()) moved = true;
    return moved || this->any_freed();
  }

  /// When step is to be called again although the device reports nothing: it may have lost what is
  /// in flight.
  [[nodiscard]] time_point step_by() const noexcept {
    return feed_.empty() ? no_deadline : look_again_;
  }

  /// Nothing is in flight: with active jobs, none of them held, and no step to take, they wait for
  /// what never comes.
  [[nodiscard]] bool nothing_in_flight() const noexcept { return feed_.empty(); }
  /// What was done to keep the classes apart.
  [[nodiscard]] const preemption_statistics& preemption() const noexcept {
    return preempt_.statistics();
  }
  /// How many SMs a model's long best-effort work leaves while real-time jobs are expected.
  [[nodiscard]] sm_count reserved(model_id m) const noexcept {
    return reserve_.chosen(static_cast<std::size_t>(m));
  }
  /// What was learned of that. Only of a model that has had a job, with
  /// preemption_options::reserve.
  [[nodiscard]] const reserve_choice& choice_of(model_id m) const noexcept {
    return reserve_.choice_of(static_cast<std::size_t>(m));
  }

private:
  /// Gives up segments that should have ended long ago, and jobs for which no lane is left.
  /// O(lanes) each time a limit has passed.
  bool look_for_lost() noexcept {
    const time_point now = device_.now();
    bool any = false;
    if (now >= look_again_) {
      look_again_ = saturating_add(now, options_.segment_limit);
      lane_set& lanes = feed_.lanes();
      for (std::uint32_t place = 0; place < lanes.size(); ++place) {
        flight* const f = lanes.oldest(place);
        if (f == nullptr || !preempt_.may_run(place)) continue;
        const time_point limit = feed_.limit_of(*f);
        if (now >= limit) {
          this->lose(*f, now);
          any = has_lost_ = true;
          look_again_ = now; // at what is behind it, which has a limit of its own
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
    this->fail_all(feed_.apart() ? std::optional(of) : std::nullopt, now);
  }

  /// Before a round of decisions: whose turn is it, and how much may be queued?
  void keep_apart() noexcept {
    if (!feed_.apart()) return;
    const time_point now = device_.now();
    const std::size_t best_effort = active(service_class::best_effort);
    preempt_.update(active(service_class::real_time) > 0, best_effort > 0,
                    best_effort > this->best_effort_flying(), back_at(now));
    if (preempt_.guards() && preempt_.open()) reserve_.disturb();
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
    const long_work work = *group == feed::best_effort ? look_ahead(a, now) : long_work{};
    if (!may_go(a, *group, work, now)) {
      if (*group >= feed::first_side) pass_over(a);
      return true;
    }
    flight& f = feed_.take(a);
    f.last = work.alone;
    f.has_long = work.is_long;
    const duration most = std::min(preempt_.most_on(*group, real_time_left_, now), work.most);
    const cut c = *group == feed_.copies() ? this->copies_of(a, f) : this->next_of(a, f, most);
    segment s = feed_.plan(f, c, *group, work.alternate, now);
    if (!f.remainder) this->count_dispatched(a, c, now);
    const bool pads = *group == feed::real_time && preempt_.pads() && !feed_.full();
    const auto with = pads ? this->find_guest(c, now).value_or(carried{}) : carried{};
    if (with.by != nullptr) feed_.pad(f, s, *with.by->runs);
    if (const std::error_code e = feed_.submit(f, s, models_)) {
      if (with.by != nullptr) this->settle(*with.guest, now);
      refuse(f, e, now);
      return true;
    }
    if (reserve_.learns()) follow(a, with.by != nullptr, now);
    this->begin_flight(f, now);
    a.reserve = *group == feed::best_effort ? feed_.reserve_of(f.place) : 0;
    a.alone = work.alone;
    if (a.reserve > 0) preempt_.let_reserved();
    if (feed_.is_side(f)) {
      ++a.side_flights;
      if (*group != feed_.copies()) preempt_.let_beside(now);
    }
    a.dispatched_at(*group, beside_.epoch());
    ++statistics_.segments;
    listener_.on_submit(a, s, f.expected, now);
    if (with.by != nullptr) {
      this->board(with, f, feed_.take(*with.guest), s.lane, now);
      preempt_.let_within(f.carries->operations.size(), now);
    }
    if (!a.is_ending()) offer(a, now);
    return true;
  }

  /// What long kernels mean for the next segment of a best-effort job.
  struct long_work {
    std::size_t alternate = 0;         ///< of best-effort lanes: how many SMs it leaves
    duration most = run_to_completion; ///< of the segment
    bool alone = false;                ///< nothing is queued behind it
    bool is_long = false;
  };
  /// False where the job's work in flight has to end first: on another kind of lane, or what a
  /// segment must not be queued behind. That end brings the job back to the policy.
  [[nodiscard]] bool may_go(active_job& a, std::size_t group, const long_work& work,
                            time_point now) noexcept {
    if (!a.may_go_to(group, feed::first_side) || !may_go_beside(a, group, now)) return false;
    return group != feed::best_effort || a.flights == 0 ||
           (!work.alone && a.reserve == work.alternate);
  }
  /// Programs with long kernels leave SMs to real-time work, others do not, and copies go where the
  /// job's programs go.
  [[nodiscard]] long_work look_ahead(active_job& a, time_point now) noexcept {
    if (!reserve_.bounds() || this->is_real_time(a)) return {};
    program_id next = no_program;
    if (a.is_ending())
      next = a.remainders.back().program;
    else if (const auto head = a.context.list().head(0); head && head->graph != nullptr)
      next = head->graph->id();
    const std::uint32_t model = a.kind->number;
    if (next == no_program && a.flights > 0)
      return {a.reserve, run_to_completion, false, a.reserve > 0};
    if (next == no_program ? !reserve_.is_long_model(model) : !reserve_.is_long(next)) return {};
    // A real-time job is expected before the job's work in flight, and then this, has ended.
    const duration until = a.head * static_cast<duration::rep>(a.flights + 1);
    const bool near = active(service_class::real_time) > 0 || arrivals_.is_near(now, until);
    long_work w;
    w.is_long = reserve_.on();
    if (reserve_.on()) w.alternate = reserve_.alternate_for(model, near);
    if (near && next != no_program) {
      w.most = options_.preemption.long_operation;
      w.alone = true;
    }
    return w;
  }

  /// A segment of a job was submitted. If a real-time job begins with it, the reservation measures
  /// what that job loses to the work that runs now; work that comes beside it ends a measurement.
  void follow(const active_job& a, bool padded, time_point now) noexcept {
    if (!this->is_real_time(a)) {
      if (preempt_.guards()) reserve_.disturb();
      return;
    }
    if (padded || beside_.current() != 0) return reserve_.disturb();
    lane_set& lanes = feed_.lanes();
    for (std::uint32_t i = 0; i < lanes.lanes(feed::real_time); ++i) {
      const std::uint32_t place = lanes.first(feed::real_time) + i;
      const flight* const oldest = lanes.oldest(place);
      if (oldest == nullptr || (oldest->owner == &a && lanes.newest(place)->owner == &a)) continue;
      if (lanes.lanes(feed::real_time) > 1) reserve_.disturb(); // on one lane they take turns
      return;
    }
    if (a.dispatched) return;
    reservation::running found;
    preempt_.for_each_running([&](const flight& r) {
      if (!reserve_.is_long(r.program)) return found.add_other();
      const std::uint32_t model = r.owner->kind->number;
      const std::size_t alternate = feed_.reserve_of(r.place);
      const time_point since = std::max(r.submitted, feed_.lanes().last_end(r.place));
      found.add_long(model, alternate, reserve_.left_of(model, alternate, r.expected, now - since),
                     r.last);
    });
    reserve_.began(a.id, a.kind->number, found, preempt_.take_open_time());
  }

  /// Its next segment may run on a side lane: it ends before the real-time work; or it is copies.
  [[nodiscard]] bool may_go_beside(active_job& a, std::size_t group, time_point now) noexcept {
    if (group < feed::first_side) return true;
    if (group == feed_.copies()) return this->has_copies(a);
    return preempt_.ends_in_time(a, real_time_left_, now);
  }

  /// The device did not take a segment.
  void refuse(flight& f, std::error_code why, time_point now) noexcept {
    active_job& a = *f.owner;
    if (!f.remainder) {
      a.context.list().undo(f.stream, f.operations.size());
      a.kind->estimate.undone(*a.progress, f.program, f.first, f.operations);
    }
    a.forget_remainder(f.program, f.first); // nobody can run it
    feed_.drop(f);
    a.is_ending() ? close(a, now) : device_failed(a, why, now);
  }

  /// Takes back what has not started where the policy would rather serve another job. Where the
  /// classes are kept apart, a job makes way for its own class.
  void evict_for_better() noexcept {
    if (policy_.size() == 0) return;
    const time_point now = device_.now();
    const auto better = [&](const flight& f) {
      if (feed_.apart() && feed_.guarded_at(f.place) &&
          (active(service_class::real_time) > 0 || !preempt_.open()))
        return false;
      return policy_.wants_preempt(*f.owner, now);
    };
    feed_.evict(better, [&](flight& f) { take_back(f, false, now); });
  }

  time_point look_again_{}; ///< for lost segments
  bool has_lost_ = false;   ///< any, ever
  duration last_left_{};    ///< real_time_left_, when it was looked at last
};

} // namespace gsched
