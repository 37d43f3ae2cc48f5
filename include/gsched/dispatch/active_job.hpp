// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/dispatch/detail/registry.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/job.hpp>
#include <gsched/job/waitlist.hpp>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/unordered_set.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

struct active_job;
/// Links the jobs that start when another job has finished. A job that ends is unlinked
/// automatically.
using follower_hook =
    bi::list_base_hook<bi::tag<struct follower_tag>, bi::link_mode<bi::auto_unlink>>;
using follower_jobs =
    bi::list<active_job, bi::base_hook<follower_hook>, bi::constant_time_size<false>>;

/// A job with all state that its dispatcher keeps of it. Recycled; keeps its address while the
/// dispatcher lives.
struct active_job : waiting_job, follower_hook {
  active_job(entry_pool& entries, frame_pool& frames) : context(entries, frames) {
    remainders.reserve(4);
  }

  job_context context;
  model* kind = nullptr;
  void* user = nullptr;
  job_progress* progress = nullptr; ///< work dispatched so far, for the estimate of the rest
  duration quantum{};               ///< size of its next segment
  cut_extent next{};         ///< that segment, as measured when the job was enqueued in the policy
  std::uint32_t flights = 0; ///< segments in flight
  std::uint32_t copy_flights = 0; ///< of these, segments of copies and memsets only
  std::uint32_t side_flights = 0; ///< of these, segments on the side lanes of one group
  std::uint32_t side_group = 0;
  std::size_t reserve = 0;      ///< the alternate of the best-effort lanes that was used last
  bool alone = false;           ///< its in-flight segment ends before the next is dispatched
  bool kept_apart = false;      ///< in the corun_queue
  bool returned = false;        ///< in the policy, from the corun_queue
  bool waits_apart = false;     ///< refused, and no segment was submitted since apart_since
  bool charged = false;         ///< the policy has picked its next segment, which was refused
  std::uint64_t side_epoch = 0; ///< epoch of the co-location choice at its first dispatch
  duration to_end{};            ///< of a real-time job: expected time that has not ended
  duration ended_expected{};    ///< expected time of its ended segments
  duration ended_took{};        ///< measured time of these on their lanes
  bool dispatched = false;      ///< whether any work of it was dispatched
  bool counted = false;         ///< counted among the active jobs of its class
  bool in_policy = false;       ///< maintained by policy_queue
  bool colocated = false;       ///< a padded program of another job runs its segment
  bool held = false;            ///< submitted as held and not released
  bool follows = false;   ///< waits for the end of another job, or for the handling of that end
  bool waits = false;     ///< waits for an instance of its model
  bool holds = false;     ///< owns context.instance
  bool lost = false;      ///< some of its work may run at any later time: see device_event
  bool announced = false; ///< on_almost_finished was called
  /// its end state once nothing is in flight, if already known
  job_state ending = job_state::running;
  /// the end state of the job that it follows, if that has ended
  job_state followed = job_state::running;
  std::uint32_t corun_flights = 0; ///< of its flights, segments that a corun_rule counts
  follower_jobs followers{};

  bi::list_member_hook<bi::link_mode<bi::auto_unlink>> passed_over_hook{};
  using hook = bi::unordered_set_member_hook<bi::link_mode<bi::safe_link>>;
  hook id_hook{};
  active_job* spare = nullptr;
  time_point apart_since{}; ///< its first refusal by a corun_rule

  /// An operation of a program that may have run in part and whose rest was not dispatched. A job
  /// that is given up runs it before it ends, as preemptive_device requires.
  struct remainder {
    program_id program = no_program;
    std::uint32_t at = 0;
    std::span<const operation* const> what{}; ///< this operation alone
  };
  std::vector<remainder> remainders;

  void keep_remainder(program_id p, std::uint32_t first, std::span<const operation* const> left) {
    if (p == no_program || left.empty() || left.front()->preemptible == preemptibility::never)
      return;
    remainders.push_back({p, first, left.first(1)});
  }
  void forget_remainder(program_id p, std::uint32_t first) noexcept {
    std::erase_if(remainders, [&](const remainder& r) { return r.program == p && r.at == first; });
  }

  /// Initialises the job from a request; the id is already set. dispatcher::submit has checked the
  /// owner.
  void begin(const job_request& r, model& m, duration first_quantum, time_point now) {
    assert(r.owner != nullptr);
    kind = &m;
    service = r.service;
    state = job_state::waiting;
    owner = r.owner;
    arrival = r.arrival.value_or(now);
    deadline = r.deadline;
    user = context.user = r.user;
    if (r.streams != default_stream::legacy) context.reset(r.streams); // a new context is legacy
    progress = &m.estimate.begin();
    total = remaining = m.estimate.remaining(*progress);
    quantum = first_quantum;
    head = std::min(total, quantum);
    flights = copy_flights = corun_flights = side_flights = 0;
    to_end = ended_expected = ended_took = duration::zero();
    dispatched = counted = alone = false;
    kept_apart = returned = waits_apart = charged = false;
    remainders.clear();
    announced = held = follows = waits = holds = lost = false;
    ending = followed = job_state::running;
  }

  /// Takes an instance of its model, or starts to wait for one. Returns whether it has one.
  [[nodiscard]] bool claim_instance(time_point now) noexcept {
    waits = !kind->may_start(*this);
    if (waits) {
      head = total; // a start is charged the whole job
      kind->instances.wait(*this, now);
    } else {
      hold_instance();
    }
    return !waits;
  }
  /// Requires model::may_start and a job that is no longer in the model's list of waiting jobs.
  void hold_instance() noexcept {
    waits = false;
    holds = true;
    ++kind->started;
    context.instance = kind->instances.take();
  }
  /// Ends the wait for an instance. Returns true if it waited and other jobs may start.
  bool stop_waiting() noexcept {
    if (!std::exchange(waits, false)) return false;
    kind->instances.leave(*this);
    return true;
  }
  /// Returns the instance, when the job ends or is given up. Returns true if other jobs may start.
  bool drop_instance() noexcept {
    const bool waited = stop_waiting();
    if (!std::exchange(holds, false)) return waited;
    --kind->started;
    lost ? kind->instances.retire(context.instance) : kind->instances.give_back(context.instance);
    return true;
  }

  /// Runs the body and the host functions until they wait, and returns the number of host functions
  /// run. Meanwhile the job counts as in flight: if they cancel it, it ends after they have
  /// returned.
  std::uint64_t advance() noexcept {
    std::uint64_t calls = 0;
    ++flights;
    if (std::exchange(state, job_state::running) == job_state::waiting) context.start(kind->body);
    do {
      while (const auto call = context.list().try_take_call()) {
        call->function(call->argument);
        ++calls;
        context.list().call_done(call->stream);
      }
    } while (context.resume_if_ready());
    --flights;
    return calls;
  }

  /// Doubles the next segment while no other job waits, because that delays no other job.
  void size_next(bool contended, duration least, duration most) noexcept {
    quantum = contended ? least : quantum < most / 2 ? 2 * quantum : most;
  }

  /// Whether nothing of it is in flight on lanes of another kind than those of the group.
  [[nodiscard]] bool may_go_to(std::size_t group, std::size_t first_side) const noexcept {
    if (group < first_side) return side_flights == 0;
    return flights == side_flights && (flights == 0 || side_group == group);
  }

  void dispatched_at(std::size_t group, std::uint64_t epoch) noexcept {
    side_group = static_cast<std::uint32_t>(group);
    if (!std::exchange(dispatched, true)) side_epoch = epoch;
  }

  /// Whether its next operations are copies or memsets.
  [[nodiscard]] bool has_copies() const noexcept {
    if (is_ending()) return false;
    const auto first = context.list().head(1);
    return first && first->copies > 0;
  }

  [[nodiscard]] bool is_ending() const noexcept { return ending != job_state::running; }
};

/// Jobs with active work that have to wait. A job that ends is unlinked automatically.
using passed_over_jobs =
    bi::list<active_job,
             bi::member_hook<active_job, bi::list_member_hook<bi::link_mode<bi::auto_unlink>>,
                             &active_job::passed_over_hook>,
             bi::constant_time_size<false>>;

/// Hash and equality by id, to find active jobs.
struct active_job_id {
  using type = job_id;
  const type& operator()(const active_job& a) const noexcept { return a.id; }
};
/// Hash of an active job, by its id.
struct active_job_hash {
  // Ids are consecutive, so their low bits spread them evenly over a power of two of buckets.
  std::size_t operator()(job_id id) const noexcept { return static_cast<std::size_t>(id); }
};
using active_jobs_by_id =
    bi::unordered_set<active_job,
                      bi::member_hook<active_job, active_job::hook, &active_job::id_hook>,
                      bi::key_of_value<active_job_id>, bi::hash<active_job_hash>,
                      bi::equal<std::equal_to<job_id>>, bi::power_2_buckets<true>>;

} // namespace gsched
