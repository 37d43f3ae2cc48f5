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

  std::uint64_t turn = 0; ///< kept by round_robin: the round in which the job is served next
  set_hook order_hook{};  ///< a policy's main order
  set_hook fair_hook{};   ///< a combinator's second order
};

/// A client's account with deficit fairness, in sixteenths of a nanosecond of device time per unit
/// of weight; deficit_ledger says what the numbers mean. Kept in the client, so that admitting a
/// job never allocates. A client that moves to another policy object starts with a fresh account.
struct fair_account {
  std::int64_t served = 0;      ///< while it has waiting jobs: what it got, on the ledger's scale
  std::int64_t balance = 0;     ///< while it has none: its deficit when it left
  std::int64_t left_at = 0;     ///< the ledger's level then
  std::int64_t last_own = 0;    ///< what its last pick cost it
  std::int64_t last_shared = 0; ///< what that pick gave to everybody
  std::uint64_t share = 0;      ///< its weight as the ledger counts it
  std::uint32_t epoch = 0;      ///< the ledger's epoch when it left
};

/// A tenant as policies see it. Outlives its jobs; owned by whoever admits jobs.
///
/// Threads  one owner; no locking.
struct client {
  struct older {
    bool operator()(const job& a, const job& b) const noexcept { return a.id < b.id; }
  };
  using by_age = bi::set<job, bi::member_hook<job, set_hook, &job::fair_hook>, bi::compare<older>>;

  client_id id{};
  double weight = 1.0; ///< share relative to other clients; above zero

  fair_account account{};
  by_age waiting{};        ///< its jobs in the policy, oldest first
  set_hook deficit_hook{}; ///< linked while it has waiting jobs
};

} // namespace gsched
