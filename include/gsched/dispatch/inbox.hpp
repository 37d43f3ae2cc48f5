// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>

namespace gsched {

/// Many threads post, one thread takes all there is, in the order of posting. Intrusive: a message
/// has a public member `Message* next_posted` and belongs to the inbox until it was taken.
///
/// Source   the stack is Treiber, "Systems programming: coping with parallelism", IBM RJ 5118,
///          1986; taking the whole list at once leaves it no ABA problem.
/// Cost     post O(1), lock-free; try_take_all O(messages), wait-free.
/// Threads  post from any; try_take_all from one.
template <class Message>
class inbox {
public:
  inbox() = default;
  inbox(const inbox&) = delete;
  inbox& operator=(const inbox&) = delete;

  void post(Message& m) noexcept {
    Message* old = newest_.load(sync::relaxed); // unordered: the exchange below re-reads it
    do {
      m.next_posted = old;
    } while (!newest_.compare_exchange_weak(
        old, &m, sync::release, sync::relaxed)); // [R1] release -> [R1] acquire: publishes m
  }

  /// The oldest message, linked by next_posted to the later ones; null when there is none.
  [[nodiscard]] Message* try_take_all() noexcept {
    if (newest_.load(sync::relaxed) == nullptr) return nullptr; // unordered: only a hint
    Message* newest =
        newest_.exchange(nullptr, sync::acquire); // [R1] acquire <- [R1] release in post
    Message* oldest = nullptr;
    while (newest != nullptr) {
      Message* const older = newest->next_posted;
      newest->next_posted = oldest;
      oldest = newest;
      newest = older;
    }
    return oldest;
  }

  /// Calls f(message) for all there is, oldest first; f may give its message back to the sender.
  /// False when there was none.
  template <class F>
  bool take_each(F f) {
    Message* m = try_take_all();
    const bool any = m != nullptr;
    while (m != nullptr) {
      Message* const next = m->next_posted;
      f(*m);
      m = next;
    }
    return any;
  }

  /// Whether something was posted; stale on return.
  [[nodiscard]] bool was_empty() const noexcept {
    return newest_.load(sync::relaxed) == nullptr; // unordered: only a hint
  }

private:
  alignas(sync::cache_line) sync::atomic<Message*> newest_{nullptr};
};

} // namespace gsched
