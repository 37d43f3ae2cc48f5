// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "futex.hpp"
#include "refusal.hpp"

#include <gsched/core/sync.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace gsched::abi {

class engine;

/// What is posted to a dispatcher's thread.
struct message {
  enum class kind : std::uint8_t { submit, cancel, command };
  kind what = kind::submit;
  void* of = nullptr; ///< the ticket or command that it is a part of
  message* next_posted = nullptr;
};

/// Something to be done on the dispatcher's thread while the sender waits. It may take several
/// turns of the loop, so that requests are served in between.
struct command {
  /// True when it is done; what it throws refuses it.
  std::function<bool(engine&)> turn;
  message asked{message::kind::command, this, nullptr};
  std::optional<refusal> refused{};
  futex_word answered{0};

  explicit command(std::function<bool(engine&)> does) : turn(std::move(does)) {}
  command(const command&) = delete;
  command& operator=(const command&) = delete;

  /// The sender may free it as soon as it has seen the answer, so it is not touched after the
  /// store; a wake-up on memory that was freed wakes somebody for nothing, which all allow for.
  void answer(std::optional<refusal> why = {}) noexcept {
    refused = std::move(why);
    answered.store(1, sync::release); // [C1] release -> [C1] acquire: publishes refused
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

} // namespace gsched::abi
