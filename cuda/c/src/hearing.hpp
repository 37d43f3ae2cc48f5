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
  const std::optional<std::string>* device_failure = nullptr; ///< says more than a code

  hearing(desk& d, std::int64_t epoch, duration delay)
      : at(d), epoch_ns(epoch), decision_delay(delay) {}

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
    ticket& t = ticket_of(j);
    try {
      const bool device = device_failure != nullptr && device_failure->has_value();
      const refusal said =
          device ? refusal(GSCHED_DEVICE_FAILED, **device_failure) : refusal_of(std::move(why));
      t.error = said.what();
      t.code = said.code();
    } catch (...) { // no memory for the line
    }
  }

  void on_end(const job& j, void* user, time_point now) noexcept {
    ticket& t = *static_cast<ticket*>(user);
    gsched_state how = GSCHED_FAILED;
    switch (j.state) {
    case job_state::finished:
      how = GSCHED_FINISHED;
      t.code = GSCHED_OK;
      at.models[t.model].record.load(sync::relaxed)->deliver(t); // unordered: written by this
                                                                 // thread
      break;
    case job_state::rejected:
      how = GSCHED_REJECTED;
      t.code = GSCHED_OK;
      rejected(t);
      break;
    case job_state::cancelled:
      how = GSCHED_CANCELLED;
      cancelled(t);
      break;
    default: break;
    }
    // What it left on the device may still use its memory, however it ends.
    const bool device = device_failure != nullptr && device_failure->has_value();
    const bool lost = static_cast<const active_job&>(j).lost;
    if ((lost || (device && t.segments > 0)) && how != GSCHED_FINISHED)
      t.code = GSCHED_DEVICE_FAILED;
    at.end(t, how, to_ns(now));
  }

private:
  /// As too many are active, of which on_failure has said a line, or as it would be late.
  static void rejected(ticket& t) noexcept {
    if (t.error.empty()) return set_line(t.error, "rejected: its deadline cannot be met");
    try {
      t.error.insert(0, "rejected: ");
    } catch (...) { // no memory for the line
    }
  }

  /// By its caller, by the server's end, or as the request before it did not finish: only then it
  /// was said why.
  static void cancelled(ticket& t) noexcept {
    t.code = GSCHED_OK;
    if (t.error.empty()) {
      set_line(t.error, "cancelled");
      // unordered: a hint, as both may come together
      if (!t.cancelling.load(sync::relaxed)) t.code = GSCHED_CLOSED;
      return;
    }
    try {
      t.error.insert(0, "cancelled: ");
    } catch (...) { // no memory for the line
    }
  }

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
