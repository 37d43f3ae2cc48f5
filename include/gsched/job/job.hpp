// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>

#include <boost/intrusive/link_mode.hpp>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/options.hpp>
#include <boost/intrusive/set.hpp>
#include <boost/intrusive/set_hook.hpp>

#include <cstdint>
#include <optional>

namespace gsched {

namespace bi = boost::intrusive;
struct client;
struct job;

/// Service class: the first is served before the second by priority<A, B>.
enum class service_class : std::uint8_t { real_time, best_effort };

/// How a job stands. Every submitted job ends in exactly one of the last four.
enum class job_state : std::uint8_t { waiting, running, finished, rejected, cancelled, failed };

/// What edf's admission keeps of a job; see backlog_order.
struct backlog_hook {
  job* left = nullptr;
  job* right = nullptr;
  duration share{-1}; ///< below zero while it is in no order
  duration on_device{};
  duration own{};
  duration all_shares{}; ///< these three of its subtree
  duration all_on_device{};
  duration least_slack{};
  duration submitted{};   ///< expected time of its segments in flight
  duration unfinished{};  ///< that, and what is not yet dispatched
  time_point entered{};   ///< when it was admitted ...
  duration ahead{};       ///< ... behind how much work, ...
  duration took{};        ///< ... itself taking how long, as was forecast, ...
  std::size_t others = 0; ///< ... beside how many jobs
  bool promised = false;
  bool active = false; ///< it counts wherever it waits, until it ends
};

using list_hook = bi::list_member_hook<bi::link_mode<bi::safe_link>>;
using set_hook = bi::set_member_hook<bi::link_mode<bi::safe_link>, bi::optimize_size<true>>;

/// What a policy may know of a job, and the hooks by which it holds it. The dispatcher keeps the
/// facts true and changes none of them while the job is in a policy.
///
/// Units    arrival and deadline are points on gsched::timeline; the rest are device time.
/// Threads  one owner (the dispatcher's thread); no locking.
struct alignas(64) job {
  set_hook order_hook{}; ///< a policy's main order; with the keys in one cache line
  job_id id{};
  duration remaining{}; ///< estimate of its device work not yet dispatched
  duration total{};     ///< estimate of all its device work, made when it arrived
  time_point arrival{};
  time_point deadline = no_deadline;

  client* owner = nullptr; ///< never null for a job in a policy
  duration head{};         ///< estimate of what is dispatched if it is picked now
  list_hook queue_hook{};  ///< its client's queue, for fairness between clients ...
  set_hook fair_hook{};    ///< ... or, of those that come back later, its set
  std::uint64_t turn = 0;  ///< kept by round_robin: the round in which the job is served next
  service_class service = service_class::best_effort;
  job_state state = job_state::waiting;
  backlog_hook backlog{}; ///< kept by edf
};

static_assert(sizeof(set_hook) == 3 * sizeof(void*));

/// A client's account with deficit fairness, in sixteenths of a nanosecond of device time per unit
/// of weight; deficit_ledger says what the numbers mean. Kept in the client, so that admitting a
/// job never allocates. A client that moves to another policy object needs a fresh account.
struct fair_account {
  std::int64_t served = 0;      ///< while active: what it got, on the ledger's scale
  std::int64_t credit = 0;      ///< while inactive: its deficit when it left, not below zero
  std::int64_t last_own = 0;    ///< what its last pick cost it
  std::int64_t last_shared = 0; ///< what that pick gave to every active client
  std::uint64_t share = 0;      ///< while active: its weight as the ledger counts it
};

/// A tenant as policies see it; owned by whoever admits jobs. Outlives its jobs, and the policy
/// that they go through unless that is told to forget it.
///
/// Threads  one owner; no locking.
struct client {
  struct older {
    bool operator()(const job& a, const job& b) const noexcept { return a.id < b.id; }
  };
  using queue_type = bi::list<job, bi::member_hook<job, list_hook, &job::queue_hook>,
                              bi::constant_time_size<false>>;
  using set_type = bi::set<job, bi::member_hook<job, set_hook, &job::fair_hook>, bi::compare<older>,
                           bi::constant_time_size<false>>;

  client_id id{};
  double weight = 1.0; ///< share relative to other clients; above zero

  fair_account account{};
  queue_type queue{};          ///< its waiting jobs, oldest first; see age_order
  set_type returned{};         ///< those that came back when their place in it was lost
  std::optional<job_id> gap{}; ///< whose place in the queue is still known: it was taken last
  job* after_gap = nullptr;    ///< who comes after it, or null if it was the last
  set_hook deficit_hook{};     ///< linked while it is active
};

} // namespace gsched
