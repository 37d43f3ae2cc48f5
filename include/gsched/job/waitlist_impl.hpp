// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/waitlist.hpp>

namespace gsched {

inline void waitlist::open(default_stream mode) noexcept {
  default_ = &fixed_[mode == default_stream::legacy ? 0 : 1];
  for (std::uint32_t i = 0; i < fixed_.size(); ++i) {
    fixed_[i].id = &fixed_[i] == default_ ? stream_default : stream_id{i + 1};
    fixed_[i].alive = true;
    fixed_[i].lane.reset();
  }
}

inline void waitlist::forget_all() noexcept {
  const auto forget = [this](stream& s) {
    unlist(s);
    for (entry* e = s.head; e != nullptr;) {
      entry& gone = *e;
      e = e->next;
      gone.waiters.clear(); // auto-unlink hooks, all of streams that are forgotten too
      if (gone.what == entry::kind::loose) operation_parts_->give(*gone.own);
      gone.serial = 0;
      entry_parts_->give(gone);
    }
    s.head = s.next = s.tail = nullptr;
    s.in_flight = 0;
    s.calling = false;
    s.lane.reset();
  };
  if (entries_ != 0) {
    for (stream& s : fixed_) forget(s);
    for (std::size_t i = 0; i < created_.size(); ++i) forget(created_[i]);
  }
  clear_phases();
  created_.clear(pool_->streams_);
  events_.clear(pool_->events_);
  entries_ = in_flight_ = pending_ = 0;
  last_.head = nullptr;
}

inline std::error_code waitlist::create_stream(stream_kind kind, stream_id& id) noexcept try {
  const stream_id next{first_created + static_cast<std::uint32_t>(created_.size())};
  stream& s = created_.push_back(pool_->streams_);
  assert(s.head == nullptr && s.where == standing::unlisted);
  s.id = next;
  s.kind = kind;
  s.alive = true;
  s.lane.reset();
  id = next;
  return {};
} catch (const std::bad_alloc&) {
  return std::make_error_code(std::errc::not_enough_memory);
}

inline std::error_code waitlist::destroy_stream(stream_id id) noexcept {
  if (index(id) < first_created || !has(id)) return errc::bad_handle;
  at(id).alive = false;
  return {};
}

inline event_id waitlist::create_event() {
  const event_id id{static_cast<std::uint32_t>(events_.size())};
  waitlist_event& e = events_.push_back(pool_->events_);
  e = {nullptr, nullptr, true};
  return id;
}

inline std::error_code waitlist::destroy_event(event_id id) noexcept {
  if (!has(id)) return errc::bad_handle;
  events_[index(id)].alive = false;
  return {};
}

template <class Fill>
std::error_code waitlist::add(stream_id id, entry::kind what, Fill fill) noexcept {
  stream* const s = find(id);
  if (s == nullptr || !s->alive) return errc::bad_handle;
  entry* e = nullptr;
  try {
    e = &pool_->entries_.take();
    e->what = what;
    e->size = e->dispatched = e->ended = 0;
    e->own = nullptr;
    fill(*e, *s);
    e->phase = s->kind == stream_kind::blocking ? &join_phase(s == &fixed_[0]) : nullptr;
  } catch (const std::bad_alloc&) {
    if (e != nullptr && e->own != nullptr) operation_parts_->give(*e->own);
    if (e != nullptr) entry_parts_->give(*e);
    return std::make_error_code(std::errc::not_enough_memory);
  }
  e->serial = ++pool_->serial_;
  pending_ += e->size;
  if (what == entry::kind::record) {
    e->event->last = e;
    e->event->in = s;
  }
  append(*s, *e); // may end and recycle what is no device work
  return {};
}

inline std::error_code waitlist::launch(stream_id id, const operation& op) noexcept {
  switch (op.kind) {
  case operation_kind::event_record: return record(op.event, id);
  case operation_kind::event_wait: return wait(id, op.event);
  case operation_kind::host_function: return call(id, op.call);
  case operation_kind::kernel:
  case operation_kind::memcpy:
  case operation_kind::memset: break;
  }
  return add(id, entry::kind::loose, [&](entry& e, const stream&) {
    e.own = &pool_->operations_.take();
    e.own->value = op;
    e.size = 1;
  });
}

inline std::error_code waitlist::launch(stream_id id, const program& graph) noexcept {
  return add(id, entry::kind::program, [&](entry& e, const stream&) {
    e.graph = &graph;
    e.size = static_cast<std::uint32_t>(graph.size());
  });
}

inline std::error_code waitlist::record(event_id event, stream_id id) noexcept {
  if (!has(event)) return errc::bad_handle;
  return add(id, entry::kind::record,
             [&](entry& e, const stream&) { e.event = &events_[index(event)]; });
}

inline std::error_code waitlist::wait(stream_id id, event_id event) noexcept {
  if (!has(event)) return errc::bad_handle;
  return add(id, entry::kind::wait, [&](entry& e, const stream& s) {
    const waitlist_event& awaited = events_[index(event)];
    e.record = awaited.in != &s ? awaited.last : nullptr; // its own order is enough
    e.record_serial = e.record != nullptr ? e.record->serial : 0;
  });
}

inline std::error_code waitlist::call(stream_id id, host_call function) noexcept {
  return add(id, entry::kind::call, [&](entry& e, const stream&) { e.call = function; });
}

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

inline waitlist::extent_of_cut waitlist::measure(const entry& head, duration quantum,
                                                 std::size_t room) const noexcept {
  if (head.what == entry::kind::program) {
    if (last_.head == &head && last_.serial == head.serial && last_.first == head.dispatched &&
        last_.quantum == quantum && head.dispatched + last_.extent.operations <= head.size)
      return last_.extent;
    const auto end = std::min<std::size_t>(head.graph->cut(head.dispatched, quantum), head.size);
    last_ = {&head,
             head.serial,
             head.dispatched,
             quantum,
             {static_cast<std::uint32_t>(end) - head.dispatched,
              head.graph->expected(head.dispatched, end)}};
    return last_.extent;
  }
  extent_of_cut x;
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

inline duration waitlist::head_expected(duration quantum, std::size_t room) const noexcept {
  if (ready_.empty()) return duration::zero();
  return measure(*ready_.begin()->next, quantum, room).expected;
}

inline std::optional<cut> waitlist::try_cut(duration quantum, std::span<const operation*> buffer,
                                            std::optional<stream_id> only) noexcept {
  stream* s = nullptr;
  if (!only)
    s = ready_.empty() ? nullptr : &*ready_.begin();
  else if (stream* const wanted = find(*only); wanted && wanted->where == standing::ready)
    s = wanted;
  if (s == nullptr) return std::nullopt;

  entry& head = *s->next;
  const extent_of_cut x = measure(head, quantum, buffer.size());
  if (x.operations == 0) return std::nullopt; // loose operations and no buffer
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
