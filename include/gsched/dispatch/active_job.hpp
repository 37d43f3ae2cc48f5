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
/// Jobs that start when another one has finished. One that ends leaves by itself.
using follower_hook =
    bi::list_base_hook<bi::tag<struct follower_tag>, bi::link_mode<bi::auto_unlink>>;
using follower_jobs =
    bi::list<active_job, bi::base_hook<follower_hook>, bi::constant_time_size<false>>;

/// A job with all that its dispatcher keeps of it. Recycled, and in place while the dispatcher
/// lives.
struct active_job : waiting_job, follower_hook {
  active_job(entry_pool& entries, frame_pool& frames) : context(entries, frames) {
    remainders.reserve(4);
  }

  job_context context;
  model* kind = nullptr;
  void* user = nullptr;
  job_progress* progress = nullptr; ///< what was dispatched of it, for the estimate of the rest
  duration quantum{};               ///< of its next segment
  cut_extent next{};                ///< that segment, as measured when it came to the policy
  std::uint32_t flights = 0;        ///< segments in flight
  std::uint32_t copy_flights = 0;   ///< of these, copies and sets alone
  std::uint32_t side_flights = 0;   ///< of these, on the side lanes of one group
  std::uint32_t side_group = 0;
  std::size_t reserve = 0; ///< the alternate of best-effort lanes that it was submitted to last
  bool alone = false;      ///< that segment ends before the next is dispatched
  std::uint64_t side_epoch = 0; ///< what was chosen to run beside it when it was dispatched first
  duration to_end{};            ///< of a real-time job: what has not ended of it
  duration ended_expected{};    ///< of its segments that have ended ...
  duration ended_took{};        ///< ... and what they took on their lanes
  bool dispatched = false;      ///< any of it
  bool counted = false;         ///< among the active jobs of its class
  bool in_policy = false;       ///< kept by policy_queue
  bool colocated = false;       ///< a padded program of another job runs its segment
  bool held = false;            ///< has not been released
  bool follows = false;         ///< another, or that one's end was not acted on yet
  bool waits = false;           ///< for an instance of its model, and has not started
  bool holds = false;           ///< context.instance is its own
  bool lost = false;            ///< some of it may run yet, for ever: see device_event
  bool announced = false;       ///< the listener heard that it is almost finished
  job_state ending = job_state::running;   ///< how it ends once nothing is in flight, if known
  job_state followed = job_state::running; ///< how the job that it follows ended, if it has
  follower_jobs followers{};

  bi::list_member_hook<bi::link_mode<bi::auto_unlink>> passed_over_hook{};
  using hook = bi::unordered_set_member_hook<bi::link_mode<bi::safe_link>>;
  hook id_hook{};
  active_job* spare = nullptr;

  /// An operation that may have run in part, of a program, and the rest of which was not dispatched
  /// again. A job that gives up runs it before it ends, as preemptive_device asks.
  struct remainder {
    program_id program = no_program;
    std::uint32_t at = 0;
    std::span<const operation* const> what{}; ///< it alone
  };
  std::vector<remainder> remainders;

  void keep_remainder(program_id p, std::uint32_t first, std::span<const operation* const> left) {
    if (p == no_program || left.empty() || left.front()->leaves == leaving::never) return;
    remainders.push_back({p, first, left.first(1)});
  }
  void forget_remainder(program_id p, std::uint32_t first) noexcept {
    std::erase_if(remainders, [&](const remainder& r) { return r.program == p && r.at == first; });
  }

  /// Takes a request's facts; the id is set already. dispatcher::submit has checked the owner.
  void begin(const job_request& r, model& m, duration first_quantum, time_point now) {
    assert(r.owner != nullptr);
    kind = &m;
    service = r.service;
    state = job_state::waiting;
    owner = r.owner;
    arrival = r.arrival.value_or(now);
    deadline = r.deadline;
    user = context.user = r.user;
    if (r.streams != default_stream::legacy) context.reset(r.streams); // as new, it is legacy
    progress = &m.estimate.begin();
    total = remaining = m.estimate.remaining(*progress);
    quantum = first_quantum;
    head = std::min(total, quantum);
    flights = copy_flights = side_flights = 0;
    to_end = ended_expected = ended_took = duration::zero();
    dispatched = counted = alone = false;
    remainders.clear();
    announced = held = follows = waits = holds = lost = false;
    ending = followed = job_state::running;
  }

  /// Takes an instance of its model, or begins to wait until it may and says so.
  [[nodiscard]] bool claim_instance(time_point now) noexcept {
    waits = !kind->may_start(*this);
    if (waits)
      kind->instances.wait(*this, now);
    else
      hold_instance();
    return !waits;
  }
  /// model::may_start must hold, and it waits no longer in the model's instances.
  void hold_instance() noexcept {
    waits = false;
    holds = true;
    ++kind->started;
    context.instance = kind->instances.take();
  }
  /// It does not wait for an instance any more. True if it did, and others may start.
  bool stop_waiting() noexcept {
    if (!std::exchange(waits, false)) return false;
    kind->instances.leave(*this);
    return true;
  }
  /// When it ends or gives up. True if others may start.
  bool drop_instance() noexcept {
    const bool waited = stop_waiting();
    if (!std::exchange(holds, false)) return waited;
    --kind->started;
    lost ? kind->instances.retire(context.instance) : kind->instances.give_back(context.instance);
    return true;
  }

  /// Runs its body and its host functions as far as they go, and counts these. While they run the
  /// job counts as in flight: what they cancel of it ends after they have returned.
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

  /// Doubles the next segment while no other job waits: nobody would be served sooner.
  void size_next(bool contended, duration least, duration most) noexcept {
    quantum = contended ? least : quantum < most / 2 ? 2 * quantum : most;
  }

  /// Nothing of it is in flight on lanes of another kind than that group's.
  [[nodiscard]] bool may_go_to(std::size_t group, std::size_t first_side) const noexcept {
    if (group < first_side) return side_flights == 0;
    return flights == side_flights && (flights == 0 || side_group == group);
  }

  void dispatched_at(std::size_t group, std::uint64_t epoch) noexcept {
    side_group = static_cast<std::uint32_t>(group);
    if (!std::exchange(dispatched, true)) side_epoch = epoch;
  }

  /// Copies and sets are next.
  [[nodiscard]] bool has_copies() const noexcept {
    if (is_ending()) return false;
    const auto first = context.list().head(1);
    return first && first->copies > 0;
  }

  [[nodiscard]] bool is_ending() const noexcept { return ending != job_state::running; }
};

/// Jobs that wait although they have work that may start. A job that ends leaves by itself.
using passed_over_jobs =
    bi::list<active_job,
             bi::member_hook<active_job, bi::list_member_hook<bi::link_mode<bi::auto_unlink>>,
                             &active_job::passed_over_hook>,
             bi::constant_time_size<false>>;

/// Finds active jobs by id.
struct active_job_id {
  using type = job_id;
  const type& operator()(const active_job& a) const noexcept { return a.id; }
};
struct active_job_hash {
  // Ids rise by one, so their low bits spread them evenly over a power of two of buckets.
  std::size_t operator()(job_id id) const noexcept { return static_cast<std::size_t>(id); }
};
using active_jobs_by_id =
    bi::unordered_set<active_job,
                      bi::member_hook<active_job, active_job::hook, &active_job::id_hook>,
                      bi::key_of_value<active_job_id>, bi::hash<active_job_hash>,
                      bi::equal<std::equal_to<job_id>>, bi::power_2_buckets<true>>;

} // namespace gsched
