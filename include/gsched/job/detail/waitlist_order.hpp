// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/job/detail/entry.hpp>
#include <gsched/job/stream.hpp>

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace gsched {

/// CUDA's ordering rules for a waitlist: which entries may start.
///
/// The entries of a stream form one list. Entries before `next` are dispatched, or are records and
/// waits that were passed. The lane keeps the order of a stream's own work behind its in-flight
/// work. An entry waits only for the *end* of other streams' work: a record, or a legacy phase.
/// Each stream is in one list: ready, due, or the list of the condition that it waits for.
///
/// Threads  one owner; no locking.
class waitlist_order {
public:
  waitlist_order(const waitlist_order&) = delete;
  waitlist_order& operator=(const waitlist_order&) = delete;

protected:
  using entry = waitlist_entry;
  using stream = waitlist_stream;
  using phase = waitlist_phase;
  using standing = waitlist_stream::standing;

  explicit waitlist_order(recycler<entry>& entries, recycler<waitlist_operation>& operations,
                          recycler<phase>& phases) noexcept
      : entry_parts_(&entries), operation_parts_(&operations), phase_parts_(&phases) {}
  ~waitlist_order() = default;

  /// Appends an entry, which has joined its phase, to its stream.
  void append(stream& s, entry& e) noexcept {
    e.next = nullptr;
    e.previous = s.tail;
    (s.tail != nullptr ? s.tail->next : s.head) = &e;
    s.tail = &e;
    ++entries_;
    if (s.next != nullptr) return;
    s.next = &e;
    advance(s);
    advance_woken();
  }

  /// The phase of an entry that is launched now. May throw std::bad_alloc.
  [[nodiscard]] phase& join_phase(bool legacy) {
    if (back_ == nullptr || (back_->legacy != legacy && back_->unended != 0)) {
      phase& p = phase_parts_->take();
      p.unended = 0;
      p.next = nullptr;
      (back_ != nullptr ? back_->next : front_) = &p;
      back_ = &p;
    }
    back_->legacy = legacy;
    ++back_->unended;
    return *back_;
  }

  /// Updates the list of a stream, and passes entries that have nothing to wait for.
  void advance(stream& s) noexcept {
    unlist(s);
    if (s.calling) return;
    while (s.next != nullptr) {
      entry& e = *s.next;
      if (e.phase != nullptr && e.phase != front_) return block(s, e.phase->blocked);
      switch (e.what) {
      case entry::kind::loose:
      case entry::kind::program: return list_ready(s);
      case entry::kind::record: break;
      case entry::kind::wait:
        if (e.record != nullptr && e.record->serial == e.record_serial)
          return block(s, e.record->waiters);
        break;
      case entry::kind::call:
        if (s.head != &e) return; // the end of the stream's in-flight work calls advance() again
        s.where = standing::due;
        due_.push_back(s);
        return;
      }
      s.next = e.next;
      retire(s);
    }
  }

  /// Advances the streams whose condition was met. A loop, not recursion: one stream may wake
  /// another.
  void advance_woken() noexcept {
    while (!woken_.empty()) advance(woken_.front()); // advance() unlists it
  }

  /// Ends the entries at the front of the stream that have nothing left to run.
  void retire(stream& s) noexcept {
    while (s.head != s.next) {
      entry& e = *s.head;
      if (e.is_device_work() && e.ended != e.size) return;
      s.head = e.next;
      (s.head != nullptr ? s.head->previous : s.tail) = nullptr;
      end(e);
    }
  }

  /// Called after work of the stream has ended.
  void advance_after_end(stream& s) noexcept {
    retire(s);
    if (s.in_flight == 0) s.lane.reset();
    if (s.next != nullptr && s.where == standing::unlisted) advance(s);
    advance_woken();
  }

  /// Drops the entries that the stream has not dispatched, without waking other streams. The caller
  /// drops all streams, then calls advance_woken() and clear_later_phases().
  void drop(stream& s) noexcept {
    unlist(s);
    entry* e = s.next;
    if (e != nullptr && e->dispatched > 0) e->size = e->dispatched; // a partly dispatched program
    if (e != nullptr && (e->dispatched > 0 || s.calling)) e = e->next;
    if (!s.calling) s.next = nullptr;
    if (e != nullptr) {
      s.tail = e->previous;
      (s.tail != nullptr ? s.tail->next : s.head) = nullptr;
    }
    while (e != nullptr) {
      entry& gone = *e;
      e = e->next;
      end(gone);
    }
    retire(s);
  }

  void unlist(stream& s) noexcept {
    if (s.where == standing::ready)
      ready_.erase(ready_.iterator_to(s));
    else if (s.where != standing::unlisted)
      s.wait_hook.unlink();
    s.where = standing::unlisted;
  }

  /// As unlist() and advance(), for a ready stream whose `next` has moved to a later entry.
  void advance_ready(stream& s) noexcept {
    if (s.next != nullptr && s.next->is_device_work() &&
        (s.next->phase == nullptr || s.next->phase == front_)) {
      auto after = ready_.iterator_to(s);
      if (++after == ready_.end() || s.next->serial < after->order) {
        s.order = s.next->serial; // its position does not change
        return;
      }
    }
    advance(s);
    advance_woken();
  }

  /// Returns the phases; every entry must have ended.
  void clear_phases() noexcept {
    if (front_ == nullptr) return;
    clear_later_phases();
    phase_parts_->give(*front_);
    front_ = back_ = nullptr;
  }

  /// For after all entries that could not start were dropped: the rest belongs to the front phase.
  void clear_later_phases() noexcept {
    if (front_ == nullptr) return;
    while (front_->next != nullptr) {
      phase& p = *front_->next;
      front_->next = p.next;
      phase_parts_->give(p);
    }
    back_ = front_;
  }

  [[nodiscard]] bool ordered_work_ended() const noexcept {
    return front_ == nullptr || (front_ == back_ && front_->unended == 0);
  }

  waitlist_ready ready_{};
  waitlist_queue due_{};
  std::size_t entries_ = 0; ///< launched and not ended

  recycler<entry>* entry_parts_;
  recycler<waitlist_operation>* operation_parts_;
  recycler<phase>* phase_parts_;

private:
  void list_ready(stream& s) noexcept {
    s.where = standing::ready;
    s.order = s.next->serial;
    ready_.insert(s);
  }

  void block(stream& s, waitlist_queue& queue) noexcept {
    s.where = standing::blocked;
    queue.push_back(s);
  }

  void end(entry& e) noexcept {
    if (e.what == entry::kind::record) {
      if (e.event->last == &e) e.event->last = nullptr;
      woken_.splice(woken_.end(), e.waiters);
    } else if (e.what == entry::kind::loose) {
      operation_parts_->give(*e.own);
    }
    if (e.phase != nullptr) leave_phase(*e.phase);
    e.serial = 0;
    --entries_;
    entry_parts_->give(e);
  }

  void leave_phase(phase& p) noexcept {
    --p.unended;
    while (front_->unended == 0 && front_->next != nullptr) {
      phase& over = *front_;
      front_ = over.next;
      woken_.splice(woken_.end(), front_->blocked);
      phase_parts_->give(over);
    }
  }

  phase* front_ = nullptr; ///< the phase whose work may start
  phase* back_ = nullptr;  ///< the phase that launches join
  waitlist_queue woken_{};
};

} // namespace gsched
