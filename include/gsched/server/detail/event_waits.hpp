// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/server/detail/futex.hpp>
#include <gsched/server/detail/server_state.hpp>
#include <gsched/server/events.hpp>
#include <gsched/server/request_record.hpp>

#include <cstdint>
#include <exception>
#include <string>

namespace gsched::detail {

/// The requests of a server that wait for events of the host program.
///
/// Threads  the server's.
class event_waits {
public:
  event_waits(server_state& at, const event_source& events) noexcept : at_(at), events_(events) {}

  /// Queries the event of a request.
  [[nodiscard]] event_answer ask(request_record& t) noexcept {
    t.asked_ns = now_ns();
    return query(t);
  }
  /// Why a request whose event has failed fails.
  [[nodiscard]] std::exception_ptr failure_for(const event_answer& a) const noexcept {
    try {
      const bool callers = !events_.blames_caller || events_.blames_caller(a.code);
      const std::string text = events_.text ? events_.text(a.code) : "this server has no events";
      return std::make_exception_ptr(
          error(callers ? errc::bad_handle : errc::device_failed, "wait_event: " + text));
    } catch (...) { // no memory for the line
      return std::current_exception();
    }
  }

  /// Holds a request, until its event has completed or it ends.
  void hold(request_record& t) noexcept { awaiting_.push_back(t); }
  [[nodiscard]] bool empty() const noexcept { return awaiting_.empty(); }

  /// Queries some events, those queried longest ago first. Calls released(request), or
  /// failed(request, why), for each that is decided; returns whether any was.
  template <class Released, class Failed>
  bool look(Released released, Failed failed) {
    if (awaiting_.empty()) return false;
    bool moved = false;
    const std::int64_t now = now_ns();
    for (int left = most_asked; left > 0 && !awaiting_.empty(); --left) {
      request_record& t = awaiting_.front();
      if (now - t.asked_ns < ask_again_ns) break;
      awaiting_.pop_front();
      t.asked_ns = now;
      const event_answer a = query(t);
      if (a.what == event_answer::kind::pending) {
        awaiting_.push_back(t);
        continue;
      }
      moved = true;
      if (a.what == event_answer::kind::complete)
        released(t);
      else
        failed(t, failure_for(a));
    }
    return moved;
  }
  /// Gives up all waits.
  template <class F>
  void take_all(F f) {
    while (!awaiting_.empty()) {
      request_record& t = awaiting_.front();
      awaiting_.pop_front();
      f(t);
    }
  }

private:
  /// Between two looks at one event: often enough to cost a request nothing that counts, and seldom
  /// enough that the driver's lock is free for the lanes.
  static constexpr std::int64_t ask_again_ns = 5000;
  /// Events asked for in one round, so that many of them do not keep the lanes waiting.
  static constexpr int most_asked = 8;

  [[nodiscard]] event_answer query(const request_record& t) noexcept {
    if (!events_.query) return {event_answer::kind::failed, 0};
    return at_.whose.lend([this, event = t.wait_event]() noexcept { return events_.query(event); });
  }

  server_state& at_;
  const event_source& events_;
  awaiting_list awaiting_;
};

} // namespace gsched::detail
