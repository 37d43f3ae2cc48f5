// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doorbell.hpp"
#include "ticket.hpp"

#include <gsched/core/sync.hpp>
#include <gsched/dispatch/inbox.hpp>

#include <cstdint>
#include <mutex>
#include <optional>

namespace gsched::abi {

/// Ended tickets on their way to who collects them, in the order of their ends. It owns a share of
/// each, which goes to the collector.
///
/// Threads  put and close from the dispatcher's; take from any, one after another.
class collector {
public:
  collector() = default;
  collector(const collector&) = delete;
  collector& operator=(const collector&) = delete;
  ~collector() { clear(); }

  /// Lets go of what nobody will collect. Nothing else is under way.
  void clear() noexcept {
    fetch();
    while (first_ != nullptr) pop().let_go();
  }

  void put(ticket& t) noexcept {
    static_cast<void>(ended_.try_post(t)); // which is never closed
    bell_.ring();
  }
  /// Nothing is put after this.
  void close() noexcept {
    closed_.store(true, sync::release); // [K1] release -> [K1] acquire: all that was put
    bell_.ring();
  }

  /// Sleeps until there are some, none will ever come, or the deadline; writes up to `most` of them
  /// and says how many. None: they are all handed out, and closed.
  [[nodiscard]] std::optional<std::uint32_t> take(ticket** out, std::uint32_t most,
                                                  std::int64_t deadline_ns) {
    const std::lock_guard one_at_a_time(taking_);
    for (;;) {
      const bool last = closed_.load(sync::acquire); // [K1] acquire: before the last look
      fetch();
      std::uint32_t n = 0;
      while (n < most && first_ != nullptr) out[n++] = &pop();
      if (n > 0) return n;
      if (last) return std::nullopt;
      if (deadline_ns != never_ns && now_ns() >= deadline_ns) return 0;
      bell_.sleep_unless([&] { return !ended_.was_empty() || closed_.load(sync::acquire); },
                         deadline_ns);
    }
  }

private:
  void fetch() noexcept {
    ended_.take_each([&](ticket& t) {
      t.next_posted = nullptr;
      (first_ == nullptr ? first_ : last_->next_posted) = &t;
      last_ = &t;
    });
  }
  ticket& pop() noexcept {
    ticket& t = *first_;
    first_ = t.next_posted;
    return t;
  }

  inbox<ticket> ended_;
  doorbell bell_;
  sync::atomic<bool> closed_{false};
  std::mutex taking_;
  ticket* first_ = nullptr; ///< taken out of the inbox, not yet handed out
  ticket* last_ = nullptr;
};

} // namespace gsched::abi
