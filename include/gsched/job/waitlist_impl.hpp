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

} // namespace gsched
