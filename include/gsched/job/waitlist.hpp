// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/detail/entry.hpp>
#include <gsched/job/detail/waitlist_order.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>
#include <gsched/job/stream.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <system_error>

namespace gsched {

/// Consecutive device operations of one stream that try_cut() has dispatched. They stay in place
/// until done() or, after undo(), until they are taken again.
struct cut {
  stream_id stream{};
  program_id program = no_program; ///< with `first`: the range, if it is part of a program
  std::uint32_t first = 0;
  std::span<const operation* const> operations{};
  duration expected{};
  bool last_work = false; ///< the job has no other pending device operation
};

/// The extent of the next cut: measure() returns it and try_cut() takes it.
struct cut_extent {
  std::uint32_t operations = 0; ///< 0: no operation may start
  duration expected{};

  // The state that was measured, to detect whether the extent is still valid.
  const void* launch = nullptr;
  std::uint64_t serial = 0;
  std::uint32_t first = 0;
  std::size_t pending = 0;
  duration quantum{};
};

/// The next operations that may start: operations of a program, or launches outside programs.
struct waiting_head {
  const program* graph = nullptr; ///< null for loose operations
  std::uint32_t at = 0;           ///< the program's next operation
  std::uint32_t end = 0;    ///< end of the range: before the program's end if the rest was dropped
  std::uint32_t copies = 0; ///< loose: number of copies and memsets before any other entry
};

/// A host function that is due, and the stream to pass to call_done().
struct due_call : host_call {
  stream_id stream{};
};

/// The operations of one job in CUDA's order: streams, the legacy default stream with blocking and
/// non-blocking streams, per-thread default streams, events, host functions.
///
/// Source   Ng, Demoulin, Liu, SOSP'23, section 4.2 and figure 7, doi:10.1145/3600006.3613163;
///          CUDA's API documentation, "Stream synchronization behavior".
/// Differs  work behind in-flight work of its own stream is active: the dispatcher submits it to
///          the same lane (`lane`, `bind`), without a wait of the host in between. A stream id is
///          not reused before reset().
/// Order    the oldest launch that may start is cut first.
/// Errors   bad_handle: the job does not have that stream or event; nothing changes.
/// Cost     amortised O(1) an operation; O(log s) each time one of s > 1 ready streams changes its
///          next launch. drop_pending and reset also take O(streams).
/// Threads  one owner; no locking.
class waitlist : private waitlist_order {
public:
  explicit waitlist(entry_pool& pool, default_stream mode = default_stream::legacy)
      : waitlist_order(pool.entries_, pool.operations_, pool.phases_), pool_(&pool) {
    open(mode);
  }
  ~waitlist() { forget_all(); }

  /// Restores the initial state: all launches, streams and events are gone. Nothing may be in
  /// flight on a device.
  void reset(default_stream mode) noexcept {
    forget_all();
    open(mode);
  }

  // Interface of the job ----------------------------------------------------------------------

  [[nodiscard]] std::error_code create_stream(stream_kind kind, stream_id& id) noexcept;
  /// Earlier launches still run. The default streams cannot be destroyed.
  [[nodiscard]] std::error_code destroy_stream(stream_id) noexcept;
  /// May throw std::bad_alloc.
  [[nodiscard]] event_id create_event();
  [[nodiscard]] std::error_code destroy_event(event_id) noexcept;

  /// Copies the operation. An operation that is no device work acts as record, wait or call.
  [[nodiscard]] std::error_code launch(stream_id, const operation&) noexcept;
  /// Launches the whole captured graph, which must outlive its execution.
  [[nodiscard]] std::error_code launch(stream_id, const program&) noexcept;
  [[nodiscard]] std::error_code record(event_id, stream_id) noexcept;
  /// Later work of the stream waits for the latest record of the event before this call, if any.
  [[nodiscard]] std::error_code wait(stream_id, event_id) noexcept;
  [[nodiscard]] std::error_code call(stream_id, host_call) noexcept;

  [[nodiscard]] bool has(stream_id id) const noexcept {
    const stream* s = find(id);
    return s != nullptr && s->alive;
  }
  [[nodiscard]] bool has(event_id id) const noexcept {
    return index(id) < events_.size() && events_[index(id)].alive;
  }

  // Interface of the dispatcher ---------------------------------------------------------------

  /// Whether an operation may be submitted now, or a host function is due.
  [[nodiscard]] bool has_active() const noexcept { return !ready_.empty() || !due_.empty(); }

  /// Whether the stream's next operation may be submitted now.
  [[nodiscard]] bool has_active(stream_id id) const noexcept {
    const stream* s = find(id);
    return s != nullptr && s->where == standing::ready;
  }

  /// Takes the host function that has been due for longest. The caller runs it, then calls
  /// call_done().
  [[nodiscard]] std::optional<due_call> try_take_call() noexcept;
  void call_done(stream_id) noexcept;

  /// The extent that try_cut() would take now with a buffer of `room` pointers.
  [[nodiscard]] cut_extent measure(duration quantum, std::size_t room) const noexcept;

  /// Takes about one quantum (as program::cut) from the oldest launch that may start, or from
  /// stream `only`. The cut ends with its program; a cut of loose operations ends before a program,
  /// a record, a wait or a call. Pointers to loose operations go to the buffer, which limits their
  /// number.
  [[nodiscard]] std::optional<cut> try_cut(duration quantum, std::span<const operation*> buffer,
                                           std::optional<stream_id> only = {}) noexcept;
  /// As above, from the oldest launch that may start, without measuring again if `known` is still
  /// valid: same quantum and buffer size, and nothing launched, taken or undone since.
  [[nodiscard]] std::optional<cut> try_cut(const cut_extent& known, duration quantum,
                                           std::span<const operation*> buffer) noexcept;

  /// The operations that try_cut() would take from. Of loose operations at most `room` are
  /// examined.
  [[nodiscard]] std::optional<waiting_head> head(std::size_t room) const noexcept;
  /// Takes exactly this many of the operations that head() returns: from its program, or loose ones
  /// into the buffer.
  [[nodiscard]] cut take_head(std::uint32_t operations,
                              std::span<const operation*> buffer) noexcept;

  /// The oldest n dispatched operations of the stream have ended.
  void done(stream_id, std::size_t operations) noexcept;
  /// The newest n dispatched operations of the stream were evicted before they started.
  void undo(stream_id, std::size_t operations) noexcept;

  /// Drops the entries that are not dispatched, including host functions that do not run yet. An
  /// event whose latest record is dropped is complete. For cancelled and failed jobs; call it again
  /// after a later undo().
  void drop_pending() noexcept;

  [[nodiscard]] std::size_t in_flight(stream_id id) const noexcept { return at(id).in_flight; }
  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
  /// The number of device operations not yet dispatched.
  [[nodiscard]] std::size_t pending() const noexcept { return pending_; }

  /// Whether every launch has ended. A stream that does not exist is idle. The legacy stream is
  /// idle when the blocking streams are idle too, because waiting for it is an action in it.
  [[nodiscard]] bool idle() const noexcept { return entries_ == 0; }
  [[nodiscard]] bool idle(stream_id id) const noexcept {
    const stream* s = find(id);
    if (s == &fixed_[0]) return ordered_work_ended();
    return s == nullptr || s->head == nullptr;
  }
  /// Whether the event's latest record has completed, or there is none.
  [[nodiscard]] bool complete(event_id id) const noexcept {
    return index(id) >= events_.size() || events_[index(id)].last == nullptr;
  }

  /// The lane of the stream's in-flight work, as the dispatcher noted it; cleared when nothing is
  /// in flight.
  [[nodiscard]] std::optional<lane_id> lane(stream_id id) const noexcept { return at(id).lane; }
  void bind(stream_id id, lane_id lane) noexcept { at(id).lane = lane; }

private:
  static constexpr std::uint32_t first_created = 3; ///< ids below are the default streams

  void open(default_stream mode) noexcept;
  void forget_all() noexcept;
  [[nodiscard]] cut_extent measure(const entry& head, duration quantum,
                                   std::size_t room) const noexcept;
  [[nodiscard]] cut take(stream& s, const cut_extent& x,
                         std::span<const operation*> buffer) noexcept;
  template <class Fill>
  [[nodiscard]] std::error_code add(stream_id id, entry::kind what, Fill fill) noexcept;

  [[nodiscard]] const stream* find(stream_id id) const noexcept {
    const std::uint32_t i = index(id);
    if (i == 0) return default_;
    if (i < first_created) return &fixed_[i - 1];
    return i - first_created < created_.size() ? &created_[i - first_created] : nullptr;
  }
  [[nodiscard]] stream* find(stream_id id) noexcept {
    return const_cast<stream*>(static_cast<const waitlist*>(this)->find(id));
  }
  [[nodiscard]] const stream& at(stream_id id) const noexcept {
    const stream* s = find(id);
    assert(s != nullptr);
    return *s;
  }
  [[nodiscard]] stream& at(stream_id id) noexcept {
    return const_cast<stream&>(static_cast<const waitlist*>(this)->at(id));
  }

  entry_pool* pool_;
  stream* default_ = nullptr;     ///< stream_id{0}
  std::array<stream, 2> fixed_{}; ///< legacy, per-thread
  entry_pool::stream_table created_{};
  entry_pool::event_table events_{};
  std::size_t in_flight_ = 0;
  std::size_t pending_ = 0;
};

// Implementation: launches, streams and events -------------------------------------------------

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
      gone.waiters.clear(); // auto-unlink hooks; the streams are discarded too
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
  append(*s, *e); // may end and recycle an entry that is no device work
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
    e.record = awaited.in != &s ? awaited.last : nullptr; // the stream's own order suffices
    e.record_serial = e.record != nullptr ? e.record->serial : 0;
  });
}

inline std::error_code waitlist::call(stream_id id, host_call function) noexcept {
  return add(id, entry::kind::call, [&](entry& e, const stream&) { e.call = function; });
}

// Implementation: the dispatcher's side -----------------------------------------------------------

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
  advance_after_end(s);
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
  if (x.operations == 0) return std::nullopt; // loose operations, and a buffer of size zero
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
  if (s->next != &head) advance_ready(*s);
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
  advance_after_end(s);
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
  advance(s);
  advance_woken();
}

inline void waitlist::drop_pending() noexcept {
  if (pending_ == 0 && entries_ == 0) return;
  for (stream& s : fixed_) drop(s);
  for (std::size_t i = 0; i < created_.size(); ++i) drop(created_[i]);
  pending_ = 0;
  advance_woken();
  clear_later_phases();
}

} // namespace gsched
