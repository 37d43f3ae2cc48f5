// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/job/job.hpp>
#include <gsched/server/described_error.hpp>
#include <gsched/server/detail/server_state.hpp>
#include <gsched/server/model.hpp>
#include <gsched/server/observer.hpp>
#include <gsched/server/request_record.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace gsched::detail {

/// Writes what a dispatcher reports into the requests.
struct request_listener : silent_listener {
  server_state& at;
  std::int64_t epoch_ns; ///< of the device's time, on CLOCK_MONOTONIC
  duration decision_delay;
  server_observer* observer = nullptr;                        ///< null: none
  const std::optional<std::string>* device_failure = nullptr; ///< says more than a code

  request_listener(server_state& d, std::int64_t epoch, duration delay)
      : at(d), epoch_ns(epoch), decision_delay(delay) {}

  void on_arrival(const job& j, void* user, time_point now) noexcept {
    request_record& t = *static_cast<request_record*>(user);
    t.id = j.id;
    t.undispatched_ns = j.total.count();
    add(at.active, 1);
    add(at.waiting, 1);
    add(at.queued_ns, t.undispatched_ns);
    if (observer != nullptr) observer->arrived(t, to_ns(now));
  }

  void on_submit(const job& j, const segment& s, duration expected, time_point now) noexcept {
    request_record& t = record_of(j);
    const std::int64_t less = std::min(expected.count(), t.undispatched_ns);
    t.undispatched_ns -= less;
    add(at.queued_ns, -less);
    if (t.segments++ == 0) {
      t.start_ns = to_ns(now);
      add(at.waiting, -1);
    }
    if (observer != nullptr) observer->submitted(t, s, expected, to_ns(now));
    if (decision_delay == duration::zero()) return;
    const std::int64_t until = now_ns() + decision_delay.count();
    while (now_ns() < until) {
    }
  }

  void on_segment_end(const job& j, segment_id id, time_point now) noexcept {
    if (observer != nullptr) observer->segment_ended(record_of(j), id, to_ns(now));
  }
  void on_preempt(time_point now) noexcept {
    if (observer != nullptr) observer->preempting(to_ns(now));
  }
  void on_restore(time_point now) noexcept {
    if (observer != nullptr) observer->restored(to_ns(now));
  }

  void on_almost_finished(const job&, void* user, duration left, time_point) noexcept {
    static_cast<request_record*>(user)->almost_finished(left);
  }

  void on_failure(const job& j, std::exception_ptr why, time_point) noexcept {
    request_record& t = record_of(j);
    try {
      const bool device = device_failure != nullptr && device_failure->has_value();
      const described_error said = device ? described_error{errc::device_failed, **device_failure}
                                          : describe(std::move(why));
      t.error = said.line;
      t.code = said.code;
    } catch (...) { // no memory for the line
    }
  }

  void on_end(const job& j, void* user, time_point now) noexcept {
    request_record& t = *static_cast<request_record*>(user);
    add(at.active, -1);
    if (t.segments == 0) add(at.waiting, -1);
    add(at.queued_ns, -t.undispatched_ns);
    auto how = request_status::failed;
    switch (j.state) {
    case job_state::finished:
      how = request_status::finished;
      t.code = {};
      // unordered: written by this thread
      at.models[t.model].record.load(sync::relaxed)->deliver(t);
      break;
    case job_state::rejected:
      how = request_status::rejected;
      t.code = {};
      rejected(t);
      break;
    case job_state::cancelled:
      how = request_status::cancelled;
      cancelled(t);
      break;
    default: break;
    }
    // What it left on the device may still use its memory, however it ends.
    const bool device = device_failure != nullptr && device_failure->has_value();
    const bool lost = static_cast<const active_job&>(j).lost;
    if (device) note_failure(); // a thread that learns of this end learns of the failure, too
    if ((lost || (device && t.segments > 0)) && how != request_status::finished)
      t.code = errc::device_failed;
    if (observer != nullptr) observer->ended(t, how, to_ns(now));
    at.end(t, how, to_ns(now));
  }

private:
  /// Of a counter that this thread alone writes.
  template <class Number>
  static void add(sync::atomic<Number>& to, std::int64_t n) noexcept {
    // unordered: a snapshot of one number
    to.store(to.load(sync::relaxed) + static_cast<Number>(n), sync::relaxed);
  }

  void note_failure() noexcept {
    try {
      at.set_failure(**device_failure);
    } catch (...) { // no memory for the line; the engine tries again
    }
  }

  /// As too many are active, of which on_failure has said a line, or as it would be late.
  static void rejected(request_record& t) noexcept {
    if (t.error.empty()) return set_line(t.error, "rejected: its deadline cannot be met");
    try {
      t.error.insert(0, "rejected: ");
    } catch (...) { // no memory for the line
    }
  }

  /// By its caller, by the server's end, or as the request before it did not finish: only then it
  /// was said why.
  static void cancelled(request_record& t) noexcept {
    t.code = {};
    if (t.error.empty()) {
      set_line(t.error, "cancelled");
      // unordered: a hint, as both may come together
      if (!t.cancelling.load(sync::relaxed)) t.code = errc::closed;
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
  [[nodiscard]] static request_record& record_of(const job& j) noexcept {
    return *static_cast<request_record*>(static_cast<const active_job&>(j).user);
  }
};

static_assert(listener<request_listener>);

} // namespace gsched::detail
