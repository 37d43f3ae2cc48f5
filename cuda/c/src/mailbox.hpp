// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "futex.hpp"

#include <gsched/core/sync.hpp>

#include <cstdint>

namespace gsched::abi {

/// An inbox that can be closed: from then on nothing can be posted, so nothing is left in it.
/// Intrusive: a message has a public member `Message* next_posted`.
///
/// The mailbox keeps the rest of a batch while f handles one message. If f never returns, a thread
/// that takes over calls close, which handles that rest.
///
/// Cost     try_post O(1), lock-free; take_each O(messages).
/// Threads  try_post from any; take_each and close from one, or from its successor.
template <class Message>
class mailbox {
public:
  mailbox() = default;
  mailbox(const mailbox&) = delete;
  mailbox& operator=(const mailbox&) = delete;

  /// False if it is closed: the message stays the sender's.
  [[nodiscard]] bool try_post(Message& m) noexcept {
    Message* old = newest_.load(sync::relaxed); // unordered: the exchange below re-reads it
    do {
      if (old == closed()) return false;
      m.next_posted = old;
    } while (!newest_.compare_exchange_weak(
        old, &m, sync::release, sync::relaxed)); // [M1] release -> [M1] acquire: publishes m
    return true;
  }

  /// Calls f(message) for all there is, oldest first; f may free its message.
  template <class F>
  bool take_each(F f) {
    if (was_empty()) return false;
    take_all(nullptr);
    give(f);
    return true;
  }

  /// As take_each, and closes it. Again: only the rest of a batch that was not given.
  template <class F>
  void close(F f) {
    take_all(closed());
    give(f);
  }

  /// Stale on return.
  [[nodiscard]] bool was_empty() const noexcept {
    Message* const m = newest_.load(sync::relaxed); // unordered: only a hint
    return m == nullptr || m == closed();
  }
  [[nodiscard]] bool was_closed() const noexcept {
    return newest_.load(sync::acquire) == closed(); // [M1] acquire: all that was posted is taken
  }

private:
  /// An address that no message has.
  [[nodiscard]] Message* closed() const noexcept {
    return static_cast<Message*>(const_cast<void*>(static_cast<const void*>(this)));
  }

  /// Moves what was posted to the end of what was taken; `then` replaces it.
  void take_all(Message* then) noexcept {
    Message* newest = newest_.exchange(then, sync::acquire); // [M1] acquire <- [M1] release
    if (newest == closed()) return;
    Message* oldest = nullptr;
    while (newest != nullptr) {
      Message* const older = newest->next_posted;
      newest->next_posted = oldest;
      oldest = newest;
      newest = older;
    }
    Message** end = &taken_;
    while (*end != nullptr) end = &(*end)->next_posted;
    *end = oldest;
  }

  template <class F>
  void give(F& f) {
    while (taken_ != nullptr) {
      Message& m = *taken_;
      taken_ = m.next_posted;
      f(m);
    }
  }

  alignas(sync::cache_line) sync::atomic<Message*> newest_{nullptr};
  /// Taken and not given yet, oldest first; on a line that no sender writes.
  alignas(sync::cache_line) Message* taken_ = nullptr;
};

/// Wakes the one thread that sleeps until there is something to do.
///
/// Cost     ring: one exchange, and a system call only if the other sleeps.
/// Threads  ring from any, after what it is rung for was made visible; the rest from one.
class doorbell {
public:
  void ring() noexcept {
    // [D1] acq_rel <-> [D1] acq_rel: whichever exchange is later sees what was before the other.
    if (asleep_.exchange(0, sync::acq_rel) == 1) futex_wake_all(asleep_);
  }

  /// Sleeps until the bell rings or the deadline, unless something() holds.
  template <class F>
  void sleep_unless(F something, std::int64_t deadline_ns = never_ns) noexcept {
    asleep_.exchange(1, sync::acq_rel); // [D1]
    if (!something())
      while (asleep_.load(sync::acquire) == 1 && // [D1] acquire <- [D1] in ring
             (deadline_ns == never_ns || now_ns() < deadline_ns))
        futex_wait(asleep_, 1, deadline_ns);
    asleep_.exchange(0, sync::acq_rel); // [D1]
  }

private:
  alignas(sync::cache_line) futex_word asleep_{0};
};

} // namespace gsched::abi
