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

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gsched {

namespace bi = boost::intrusive;
struct client;

/// Service class of a job. priority<A, B> serves real-time jobs before best-effort jobs.
enum class service_class : std::uint8_t { real_time, best_effort };

/// The state of a job. Every submitted job ends in exactly one of the last four states.
enum class job_state : std::uint8_t { waiting, running, finished, rejected, cancelled, failed };

[[nodiscard]] constexpr std::string_view to_string(job_state s) noexcept {
  constexpr std::string_view names[] = {"waiting",  "running",   "finished",
                                        "rejected", "cancelled", "failed"};
  return names[static_cast<std::size_t>(s)];
}

using list_hook = bi::list_member_hook<bi::link_mode<bi::safe_link>>;
using set_hook = bi::set_member_hook<bi::link_mode<bi::safe_link>, bi::optimize_size<true>>;

static_assert(sizeof(set_hook) == 3 * sizeof(void*));

/// The public facts of a job, which policies read. The dispatcher updates them, and changes none
/// while the job is in a policy.
///
/// Units    arrival and deadline are points on gsched::timeline; the others are device time.
/// Threads  one owner (the dispatcher's thread); no locking.
struct alignas(64) job {
  job_id id{};
  duration remaining{}; ///< estimated device time not yet dispatched
  duration total{};     ///< estimated device time of the whole job, made at its arrival
  time_point arrival{};
  time_point deadline = no_deadline;
  client* owner = nullptr; ///< never null for a job in a policy
  duration head{};         ///< estimated device time of the segment that would be dispatched now
  service_class service = service_class::best_effort;
  job_state state = job_state::waiting;
};

static_assert(sizeof(job) == 64, "a policy reads one cache line of a job");

/// A tenant. Outlives its jobs.
///
/// Threads  one owner; no locking.
struct client {
  client_id id{};
  double weight = 1.0; ///< share relative to other clients; above zero
};

} // namespace gsched
