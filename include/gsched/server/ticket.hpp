// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/server/detail/futex.hpp>
#include <gsched/server/detail/server_state.hpp>
#include <gsched/server/detail/stall_detector.hpp>
#include <gsched/server/request_record.hpp>

#include <unistd.h>

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace gsched {

/// How a request has ended.
struct request_result {
  request_status status = request_status::pending;
  std::error_code code{}; ///< why it has not finished; none where its caller cancelled it
  std::string error{};    ///< one line; empty if it has finished
  duration waited{};      ///< from its arrival to its start, or to its end if it never started
  duration latency{};     ///< from its arrival to its end
  std::uint32_t segments = 0;
  std::uint32_t instance = 0; ///< of its model
};

/// Refuses a call in a child of the process that opened the server: no thread would answer there.
inline void refuse_in_child(const detail::server_state& of) {
  if (::getpid() != of.process)
    throw error(errc::bad_option, "a server of process " + std::to_string(of.process) +
                                      ", expected one of this process: a child made by fork() "
                                      "opens its own");
}
/// Refuses a call that would wait for the thread on which it is made.
inline void refuse_on_thread(const detail::server_state& of, const char* what) {
  refuse_in_child(of);
  if (std::this_thread::get_id() == of.dispatcher)
    throw error(errc::bad_option,
                std::string(what) +
                    ": called on the dispatcher's thread, which would wait for itself");
}

/// Waits until a request has ended, or the time on CLOCK_MONOTONIC; false if that came first. The
/// server may be closed, and destroyed.
/// Errors   bad_option on the server's thread or in a child process.
inline bool wait_until(request_record& s, std::int64_t until_ns) {
  refuse_in_child(*s.server);
  if (detail::now_ns() < until_ns) refuse_on_thread(*s.server, "wait");
  for (detail::stall_detector d(*s.server); !s.wait_until(d.next(until_ns)); d.look())
    if (detail::now_ns() >= until_ns) return false;
  return true;
}

/// Asks for the end of a request: what of it is on the device ends first. False if it has ended.
/// Errors   bad_option in a child process.
inline bool try_cancel(request_record& s) {
  if (s.has_ended()) return false;
  refuse_in_child(*s.server);
  if (s.cancelling.exchange(true, sync::relaxed)) return true; // unordered: one of them posts
  s.hold();
  if (!s.server->try_post(s.cancel)) s.release(); // the server ends it
  return true;
}

/// A request of a server, as its submitter holds it. It may outlive the server, which ends all its
/// requests. Dropping a ticket does not cancel its request.
///
/// Errors   bad_option for wait, cancel and await in a child process, and for a wait on the
///          server's thread.
/// Threads  one at a time for one ticket; any thread.
class [[nodiscard]] ticket {
public:
  ticket() = default;
  /// Takes over a share of the request.
  explicit ticket(request_record* owned) noexcept : of_(owned) {}
  ticket(ticket&& from) noexcept : of_(std::exchange(from.of_, nullptr)) {}
  ticket& operator=(ticket&& from) noexcept {
    if (this != &from) {
      reset();
      of_ = std::exchange(from.of_, nullptr);
    }
    return *this;
  }
  ~ticket() { reset(); }

  [[nodiscard]] explicit operator bool() const noexcept { return of_ != nullptr; }
  /// The request itself, as server_request::after takes it.
  [[nodiscard]] request_record* get() const noexcept { return of_; }

  [[nodiscard]] bool was_ended() const noexcept { return of_->has_ended(); }
  /// Pending until it has ended.
  [[nodiscard]] request_result result() const {
    const request_record& s = *of_;
    if (!s.has_ended()) return {};
    const std::int64_t began = s.start_ns != 0 ? s.start_ns : s.end_ns;
    return {s.status,
            s.code,
            s.error,
            duration{began - s.arrival_ns},
            duration{s.end_ns - s.arrival_ns},
            s.segments,
            s.instance};
  }

  /// Waits for the end.
  request_result wait() {
    static_cast<void>(gsched::wait_until(*of_, detail::never_ns));
    return result();
  }
  /// False if the request has not ended in time.
  [[nodiscard]] bool wait_for(duration most) {
    if (most > duration::zero()) refuse_on_thread(*of_->server, "wait_for");
    const std::int64_t now = detail::now_ns();
    return gsched::wait_until(*of_, most.count() > detail::never_ns - now ? detail::never_ns
                                                                          : now + most.count());
  }
  /// False if it has ended already.
  bool cancel() { return try_cancel(*of_); }

  /// co_await ticket: suspends a coroutine until the end, and gives the result. It goes on on the
  /// server's thread, so it must not wait for the server there. One coroutine awaits a ticket.
  [[nodiscard]] auto operator co_await() const {
    struct awaiter {
      const ticket& of;
      bool await_ready() const {
        refuse_in_child(*of.of_->server);
        return of.of_->has_ended();
      }
      bool await_suspend(std::coroutine_handle<> h) const noexcept {
        return of.of_->try_suspend(h);
      }
      request_result await_resume() const { return of.result(); }
    };
    return awaiter{*this};
  }

private:
  void reset() noexcept {
    // In a child process the share belongs to the parent.
    if (request_record* const s = std::exchange(of_, nullptr); s != nullptr)
      if (::getpid() == s->server->process) s->release();
  }
  request_record* of_ = nullptr;
};

} // namespace gsched
