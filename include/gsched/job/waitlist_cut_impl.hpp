// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/waitlist.hpp>

// The dispatcher's side of a waitlist.

namespace gsched {

inline std::optional<due_call> waitlist::try_take_call() noexcept {
  if (due_.empty()) return std::nullopt;
  stream& s = due_.front();
  unlist(s);
  s.calling = true;
  return due_call{s.head->call, s.id};
}

inline void waitlist::call_done(stream_id id) noexcept {
  stream& s = at(id);
  assert(s.calling);
  s.calling = false;
  s.next = s.head->next;
  settle_after_end(s);
}

inline cut_extent waitlist::measure(const entry& head, duration quantum,
                                    std::size_t room) const noexcept {
  cut_extent x;
  x.launch = &head;
  x.serial = head.serial;
  x.first = head.dispatched;
  x.pending = pending_;
  x.quantum = quantum;
  if (head.what == entry::kind::program) {
    const auto end = std::min<std::size_t>(head.graph->cut(head.dispatched, quantum), head.size);
    x.operations = static_cast<std::uint32_t>(end) - head.dispatched;
    x.expected = head.graph->expected(head.dispatched, end);
    return x;
  }
  for (const entry* e = &head; e != nullptr && x.operations < room; e = e->next) {
    if (e->what != entry::kind::loose || e->phase != head.phase) break;
    const duration sum = x.expected + e->own->value.expected;
    if (x.operations > 0 && sum > quantum && quantum - x.expected <= sum - quantum) break;
    ++x.operations;
    x.expected = sum;
    if (sum > quantum) break;
  }
  return x;
}

inline cut_extent waitlist::measure(duration quantum, std::size_t room) const noexcept {
  return ready_.empty() ? cut_extent{} : measure(*ready_.begin()->next, quantum, room);
}

inline std::optional<cut> waitlist::try_cut(duration quantum, std::span<const operation*> buffer,
                                            std::optional<stream_id> only) noexcept {
  stream* s = nullptr;
  if (!only)
    s = ready_.empty() ? nullptr : &*ready_.begin();
  else if (stream* const wanted = find(*only); wanted && wanted->where == standing::ready)
    s = wanted;
  if (s == nullptr) return std::nullopt;
  const cut_extent x = measure(*s->next, quantum, buffer.size());
  if (x.operations == 0) return std::nullopt; // loose operations and no buffer
  return take(*s, x, buffer);
}

inline std::optional<cut> waitlist::try_cut(const cut_extent& known, duration quantum,
                                            std::span<const operation*> buffer) noexcept {
  if (ready_.empty()) return std::nullopt;
  stream& s = *ready_.begin();
  const bool holds = known.operations > 0 && known.launch == s.next &&
                     known.serial == s.next->serial && known.first == s.next->dispatched &&
                     known.pending == pending_ && known.quantum == quantum;
  return holds ? take(s, known, buffer) : try_cut(quantum, buffer);
}

inline std::optional<waiting_head> waitlist::head(std::size_t room) const noexcept {
  if (ready_.empty()) return std::nullopt;
  const entry& first = *ready_.begin()->next;
  if (first.what == entry::kind::program)
    return waiting_head{first.graph, first.dispatched, first.size, 0};
  waiting_head h;
  for (const entry* e = &first; e != nullptr && h.copies < room; e = e->next, ++h.copies)
    if (e->what != entry::kind::loose || e->phase != first.phase ||
        e->own->value.kind == operation_kind::kernel)
      break;
  return h;
}

inline cut waitlist::take_head(std::uint32_t operations,
                               std::span<const operation*> buffer) noexcept {
  assert(!ready_.empty() && operations > 0);
  stream& s = *ready_.begin();
  cut_extent x;
  x.operations = operations;
  const entry* e = s.next;
  if (e->what == entry::kind::program) {
    assert(e->dispatched + operations <= e->size);
    x.expected = e->graph->expected(e->dispatched, e->dispatched + operations);
  } else {
    assert(operations <= buffer.size());
    for (std::uint32_t i = 0; i < operations; ++i, e = e->next)
      x.expected += e->own->value.expected;
  }
  return take(s, x, buffer);
}

inline cut waitlist::take(stream& from, const cut_extent& x,
                          std::span<const operation*> buffer) noexcept {
  stream* const s = &from;
  entry& head = *s->next;
  cut c;
  c.stream = s->id;
  c.expected = x.expected;
  if (head.what == entry::kind::program) {
    c.program = head.graph->id();
    c.first = head.dispatched;
    c.operations = head.graph->range(head.dispatched, head.dispatched + x.operations);
    head.dispatched += x.operations;
    if (head.dispatched == head.size) s->next = head.next;
  } else {
    entry* e = &head;
    for (std::uint32_t i = 0; i < x.operations; ++i, e = e->next) {
      buffer[i] = &e->own->value;
      e->dispatched = 1;
    }
    c.operations = buffer.first(x.operations);
    s->next = e;
  }
  s->in_flight += x.operations;
  in_flight_ += x.operations;
  pending_ -= x.operations;
  c.last_work = pending_ == 0;
  if (s->next != &head) settle_ready(*s);
  return c;
}

inline void waitlist::done(stream_id id, std::size_t operations) noexcept {
  stream& s = at(id);
  assert(operations <= s.in_flight);
  s.in_flight -= operations;
  in_flight_ -= operations;
  for (entry* e = s.head; operations > 0; e = e->next) {
    const auto n = std::min<std::size_t>(operations, e->dispatched - e->ended);
    e->ended += static_cast<std::uint32_t>(n);
    operations -= n;
  }
  settle_after_end(s);
}

inline void waitlist::undo(stream_id id, std::size_t operations) noexcept {
  if (operations == 0) return;
  stream& s = at(id);
  assert(operations <= s.in_flight);
  s.in_flight -= operations;
  in_flight_ -= operations;
  pending_ += operations;
  entry* e = s.next != nullptr ? s.next : s.tail;
  for (;; e = e->previous) {
    const auto n = std::min<std::size_t>(operations, e->dispatched - e->ended);
    e->dispatched -= static_cast<std::uint32_t>(n);
    operations -= n;
    if (operations == 0) break;
  }
  s.next = e;
  if (s.in_flight == 0) s.lane.reset();
  settle(s);
  settle_woken();
}

inline void waitlist::drop_pending() noexcept {
  if (pending_ == 0 && entries_ == 0) return;
  for (stream& s : fixed_) drop(s);
  for (std::size_t i = 0; i < created_.size(); ++i) drop(created_[i]);
  pending_ = 0;
  settle_woken();
  clear_later_phases();
}

} // namespace gsched
