// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>
#include <gsched/server/detail/futex.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <utility>

namespace gsched::detail {

class engine;

/// What other threads post to a server's thread.
struct message {
  enum class kind : std::uint8_t { submit, cancel, command };
  kind what = kind::submit;
  void* of = nullptr; ///< the request_record or command that it is a part of
  message* next_posted = nullptr;
};

/// Work for the server's thread, for which the sender waits. It may take several rounds of the
/// loop, so that requests are served in between.
struct command {
  /// One round; true when the work is done. What it throws is rethrown at the sender.
  std::function<bool(engine&)> round;
  message asked{message::kind::command, this, nullptr};
  std::exception_ptr thrown{};
  futex_word answered{0};

  explicit command(std::function<bool(engine&)> does) : round(std::move(does)) {}
  command(const command&) = delete;
  command& operator=(const command&) = delete;

  /// The sender may free the command as soon as it has seen the answer, so the command is not
  /// touched after the store; a wake-up on freed memory can wake an unrelated waiter once, which
  /// every waiter allows for.
  void answer(std::exception_ptr why = {}) noexcept {
    thrown = std::move(why);
    answered.store(1, sync::release); // [C1] release -> [C1] acquire: publishes thrown
    futex_wake_all(answered);
  }
  /// False if the deadline came first.
  [[nodiscard]] bool wait_until(std::int64_t until_ns) noexcept {
    while (answered.load(sync::acquire) == 0) { // [C1] acquire <- [C1] release
      if (now_ns() >= until_ns) return false;
      futex_wait(answered, 0, until_ns);
    }
    return true;
  }
};

} // namespace gsched::detail
