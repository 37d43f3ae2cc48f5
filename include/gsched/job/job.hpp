// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>

#include <boost/intrusive/link_mode.hpp>
#include <boost/intrusive/options.hpp>
#include <boost/intrusive/set.hpp>
#include <boost/intrusive/set_hook.hpp>

#include <cstdint>

namespace gsched {

namespace bi = boost::intrusive;
struct client;

/// Service class: the first is served before the second by priority<A, B>.
enum class service_class : std::uint8_t { real_time, best_effort };

/// How a job stands. Every submitted job ends in exactly one of the last four.
enum class job_state : std::uint8_t { waiting, running, finished, rejected, cancelled, failed };

using set_hook = bi::set_member_hook<bi::link_mode<bi::safe_link>>;

/// What a policy may know of a job, and the hooks by which it holds it. The dispatcher keeps the
/// facts true and changes none of them while the job is in a policy.
///
/// Units    arrival and deadline are points on gsched::timeline; the rest are device time.
/// Threads  one owner (the dispatcher's thread); no locking.
struct job {
  job_id id{};
  service_class service = service_class::best_effort;
  job_state state = job_state::waiting;
  client* owner = nullptr; ///< never null for a job in a policy
  time_point arrival{};
  time_point deadline = no_deadline;
  duration total{};     ///< estimate of all its device work, made when it arrived
  duration remaining{}; ///< estimate of its device work not yet dispatched
  duration head{};      ///< estimate of what is dispatched if it is picked now

  set_hook order_hook{}; ///< a policy's main order
  set_hook fair_hook{};  ///< a combinator's second order
};

/// A tenant as policies see it. Outlives its jobs; owned by whoever admits jobs.
///
/// Threads  one owner; no locking.
struct client {
  struct older {
    bool operator()(const job& a, const job& b) const noexcept { return a.id < b.id; }
  };
  using by_age = bi::set<job, bi::member_hook<job, set_hook, &job::fair_hook>,
                         bi::compare<older>, bi::constant_time_size<true>>;

  client_id id{};
  double weight = 1.0; ///< share relative to other clients; above zero

  /// Deficit fairness keeps its account here, so that admitting a job never allocates.
  double deficit = 0.0;     ///< device time owed in ns, before the policy's shift
  std::uint64_t epoch = 0;  ///< the policy's reset from which deficit counts
  by_age waiting{};         ///< its jobs in the policy, oldest first
  set_hook deficit_hook{};  ///< linked while it has waiting jobs
};

} // namespace gsched
