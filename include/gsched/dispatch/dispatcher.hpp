// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/flight.hpp>
#include <gsched/dispatch/inbox.hpp>
#include <gsched/dispatch/landings.hpp>
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
  using life::start_freed;
  using life::statistics_;
  using life::take_back;
  using life::woken_;
  using typename life::feed;

public:
  /// All that is passed by reference outlives the dispatcher.
  dispatcher(Device& on, Policy& order, Accountant& account, Listener& hears,
             const dispatch_options& how = {})
      : life(on, order, account, hears, how) {}
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
    moved |= start_freed();
    keep_apart();
    if (options_.evict_on_preempt && std::exchange(woken_, false)) evict_for_better();
    while (dispatch_one()) moved = true;
    return moved || this->any_freed();
  }

  /// Nothing is in flight: with active jobs, none of them held, and no step to take, they wait for
  /// what never comes.
  [[nodiscard]] bool nothing_in_flight() const noexcept { return feed_.empty(); }
  /// What was done to keep the classes apart.
  [[nodiscard]] const preemption_statistics& preemption() const noexcept {
    return preempt_.statistics();
  }

private:
  bool take_posted() {
    return inbox_.take_each([&](posted_request& r) {
      switch (r.what) {
      case posted_request::kind::submit: r.id = this->submit(r.request); break;
      case posted_request::kind::cancel: this->cancel(r.id); break;
      case posted_request::kind::release: this->release(r.id); break;
      }
      if (r.taken != nullptr) r.taken(r); // after this the sender may free it
    });
  }

  /// Before a round of decisions: whose turn is it, and how much may be queued?
  void keep_apart() noexcept {
    if (!feed_.apart()) return;
    const time_point now = device_.now();
    const std::size_t best_effort = active(service_class::best_effort);
    preempt_.update(active(service_class::real_time) > 0, best_effort > 0,
                    best_effort > this->best_effort_flying(), back_at(now));
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
    if (!a.may_go_to(*group, feed::first_side) || !may_go_beside(a, *group, now)) {
      if (*group >= feed::first_side) pass_over(a);
      return true;
    }
    flight& f = feed_.take(a);
    const cut c = *group == feed_.copies()
                      ? this->copies_of(a, f)
                      : this->next_of(a, f, preempt_.most_on(*group, real_time_left_, now));
    segment s = feed_.plan(f, c, *group, now);
    if (c.last_work && a.context.launches_no_more() && !std::exchange(a.announced, true))
      listener_.on_almost_finished(a, a.user, now);
    const auto guest = *group == feed::real_time && preempt_.pads() && !feed_.full()
                           ? this->find_guest(c, now)
                           : std::nullopt;
    if (guest) feed_.pad(f, s, *guest->by->runs);
    if (const std::error_code e = feed_.submit(f, s, models_)) {
      if (guest) this->settle(*guest->guest, now);
      refuse(f, e, now);
      return true;
    }
    if (!f.remainder) a.kind->estimate.dispatched(*a.progress, f.program, f.first, f.operations);
    this->begin_flight(a);
    if (feed_.is_side(f)) {
      ++a.side_flights;
      if (*group != feed_.copies()) preempt_.let_beside(now);
    }
    a.dispatched_at(*group, beside_.epoch());
    ++statistics_.segments;
    listener_.on_submit(a, s, f.expected, now);
    if (guest) {
      this->board(*guest, f, feed_.take(*guest->guest), s.lane, now);
      preempt_.let_within(f.carries->operations.size(), now);
    }
    if (!a.is_ending()) offer(a, now);
    return true;
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
    if (!f.remainder) a.context.list().undo(f.stream, f.operations.size());
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
      if (feed_.apart() && f.place < options_.lanes &&
          (active(service_class::real_time) > 0 || !preempt_.open()))
        return false;
      return policy_.wants_preempt(*f.owner, now);
    };
    feed_.evict(better, [&](flight& f) { take_back(f, false, now); });
  }

  inbox<posted_request> inbox_;
  duration last_left_{}; ///< real_time_left_, when it was looked at last
};

} // namespace gsched
