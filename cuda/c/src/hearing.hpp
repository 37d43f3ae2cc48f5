// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "desk.hpp"
#include "refusal.hpp"
#include "ticket.hpp"

#include <gsched/core/time.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/job/job.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

namespace gsched::abi {

/// Writes what a dispatcher tells into the tickets.
struct hearing : silent_listener {
  desk& at;
  std::int64_t epoch_ns; ///< of the device's time, on CLOCK_MONOTONIC
  duration decision_delay;
  std::size_t max_jobs;
  const std::optional<std::string>* device_failure = nullptr; ///< says more than a code

  hearing(desk& d, std::int64_t epoch, duration delay, std::size_t most)
      : at(d), epoch_ns(epoch), decision_delay(delay), max_jobs(most) {}

  void on_arrival(const job& j, void* user, time_point) noexcept {
    static_cast<ticket*>(user)->id = j.id;
  }

  void on_submit(const job& j, const segment&, duration, time_point now) noexcept {
    ticket& t = ticket_of(j);
    if (t.segments++ == 0) t.start_ns = to_ns(now);
    if (decision_delay == duration::zero()) return;
    const std::int64_t until = now_ns() + decision_delay.count();
    while (now_ns() < until) {
    }
  }

  void on_failure(const job& j, std::exception_ptr why, time_point) noexcept {
    try {
      const bool device = device_failure != nullptr && device_failure->has_value();
      ticket_of(j).error = device ? **device_failure : line_of(why);
    } catch (...) { // no memory for the line
    }
  }

  void on_end(const job& j, void* user, time_point now) noexcept {
    ticket& t = *static_cast<ticket*>(user);
    gsched_state how = GSCHED_FAILED;
    switch (j.state) {
    case job_state::finished:
      how = GSCHED_FINISHED;
      at.models[t.model].load(sync::relaxed)->deliver(t); // unordered: written by this thread
      break;
    case job_state::rejected:
      how = GSCHED_REJECTED;
      set_line(t.error, at.live_count > max_jobs
                            ? "rejected: as many requests are active as max_jobs allows"
                            : "rejected: its deadline cannot be met");
      break;
    case job_state::cancelled:
      how = GSCHED_CANCELLED;
      if (t.error.empty()) set_line(t.error, "cancelled");
      break;
    default: break;
    }
    at.end(t, how, to_ns(now));
  }

private:
  [[nodiscard]] std::int64_t to_ns(time_point t) const noexcept {
    return epoch_ns + t.time_since_epoch().count();
  }
  /// A dispatcher's jobs are active_jobs.
  [[nodiscard]] static ticket& ticket_of(const job& j) noexcept {
    return *static_cast<ticket*>(static_cast<const active_job&>(j).user);
  }
};

static_assert(listener<hearing>);

} // namespace gsched::abi
