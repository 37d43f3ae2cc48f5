// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>
#include <gsched/dispatch/inbox.hpp>
#include <gsched/server/detail/doorbell.hpp>
#include <gsched/server/detail/futex.hpp>
#include <gsched/server/request_record.hpp>

#include <cstdint>
#include <mutex>
#include <optional>

namespace gsched::detail {

/// Ended requests that are to be collected, in the order of their ends. It owns a share of each,
/// which take passes to its caller.
///
/// Threads  put and close from the server's; take from any, one at a time.
class ended_queue {
public:
  ended_queue() = default;
  ended_queue(const ended_queue&) = delete;
  ended_queue& operator=(const ended_queue&) = delete;
  ~ended_queue() { clear(); }

  /// Releases the rest. No other call is under way.
  void clear() noexcept {
    fetch();
    while (first_ != nullptr) pop().release();
  }

  void put(request_record& t) noexcept {
    static_cast<void>(ended_.try_post(t)); // which is never closed
    bell_.ring();
  }
  /// Nothing is put after this.
  void close() noexcept {
    closed_.store(true, sync::release); // [K1] release -> [K1] acquire: all that was put
    bell_.ring();
  }

  /// Waits for an ended request until the deadline; writes up to `most` of them and returns how
  /// many. Null once it is closed and all were taken.
  [[nodiscard]] std::optional<std::uint32_t> take(request_record** out, std::uint32_t most,
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
    ended_.take_each([&](request_record& t) {
      t.next_posted = nullptr;
      (first_ == nullptr ? first_ : last_->next_posted) = &t;
      last_ = &t;
    });
  }
  request_record& pop() noexcept {
    request_record& t = *first_;
    first_ = t.next_posted;
    return t;
  }

  inbox<request_record> ended_;
  doorbell bell_;
  sync::atomic<bool> closed_{false};
  std::mutex taking_;
  request_record* first_ = nullptr; ///< taken out of the inbox, not yet handed out
  request_record* last_ = nullptr;
};

} // namespace gsched::detail
