// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>

namespace gsched {

/// A queue from many posting threads to one taking thread, in the order of posting. After close()
/// nothing can be posted, so no message remains in it. Intrusive: a message has a public member
/// `Message* next_posted` and belongs to the inbox until it is passed to a function.
///
/// The inbox keeps the rest of a batch while the function handles one message. If the function
/// never returns, the thread that takes over calls close(), which handles the rest.
///
/// Source   the stack is Treiber, "Systems programming: coping with parallelism", IBM RJ 5118,
///          1986. The whole list is taken at once, so there is no ABA problem.
/// Cost     try_post O(1), lock-free; take_each and close O(messages).
/// Threads  try_post from any thread; take_each and close from one thread, or from its successor.
template <class Message>
class inbox {
public:
  inbox() = default;
  inbox(const inbox&) = delete;
  inbox& operator=(const inbox&) = delete;

  /// Posts a message. Returns false if the inbox is closed; the message then remains the sender's.
  [[nodiscard]] bool try_post(Message& m) noexcept {
    Message* old = newest_.load(sync::relaxed); // relaxed: the exchange below reads it again
    do {
      if (old == closed()) return false;
      m.next_posted = old;
    } while (!newest_.compare_exchange_weak(
        old, &m, sync::release, sync::relaxed)); // [M1] release -> [M1] acquire: publishes m
    return true;
  }

  /// Calls f(message) for all posted messages, oldest first; f may free its message or return it to
  /// the sender. Returns false if there was none.
  template <class F>
  bool take_each(F f) {
    if (was_empty()) return false;
    take_all(nullptr);
    give(f);
    return true;
  }

  /// As take_each, and closes the inbox. A second call handles only the rest of an interrupted
  /// batch.
  template <class F>
  void close(F f) {
    take_all(closed());
    give(f);
  }

  /// Stale on return.
  [[nodiscard]] bool was_empty() const noexcept {
    Message* const m = newest_.load(sync::relaxed); // relaxed: only a hint
    return m == nullptr || m == closed();
  }
  [[nodiscard]] bool was_closed() const noexcept {
    return newest_.load(sync::acquire) == closed(); // [M1] acquire: everything posted was taken
  }

private:
  /// An address that no message has.
  [[nodiscard]] Message* closed() const noexcept {
    return static_cast<Message*>(const_cast<void*>(static_cast<const void*>(this)));
  }

  /// Appends the posted messages to the taken ones and stores `then` as the newest posted message.
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
  /// Taken and not yet passed on, oldest first; on a cache line that no sender writes.
  alignas(sync::cache_line) Message* taken_ = nullptr;
};

} // namespace gsched
