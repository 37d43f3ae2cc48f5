// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>

namespace gsched {

/// Many threads post, one thread takes all there is, in the order of posting. It can be closed:
/// from then on nothing can be posted, so nothing is left in it. Intrusive: a message has a public
/// member `Message* next_posted` and belongs to the inbox until it is given to a function.
///
/// The inbox keeps the rest of a batch while the function handles one message. If that never
/// returns, a thread that takes over calls close, which handles the rest.
///
/// Source   the stack is Treiber, "Systems programming: coping with parallelism", IBM RJ 5118,
///          1986; taking the whole list at once leaves it no ABA problem.
/// Cost     try_post O(1), lock-free; take_each and close O(messages).
/// Threads  try_post from any; take_each and close from one, or from its successor.
template <class Message>
class inbox {
public:
  inbox() = default;
  inbox(const inbox&) = delete;
  inbox& operator=(const inbox&) = delete;

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

  /// Calls f(message) for all there is, oldest first; f may free its message or give it back to the
  /// sender. False when there was none.
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

} // namespace gsched
