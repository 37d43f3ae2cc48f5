// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/job/entry.hpp>
#include <gsched/job/stream.hpp>

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace gsched {

/// What may start when: the part of a waitlist that knows CUDA's rules.
///
/// A stream's entries stand in one list. Those before `next` are in flight, or records and waits
/// that were passed on the way; a stream's own order behind work in flight is kept by the lane.
/// What must have *ended* first is another stream's: a record, or a phase of the legacy order.
/// Each stream is listed in one place: ready, due, or with what it waits for.
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

  /// Puts an entry, whose phase is joined, behind its stream's others.
  void append(stream& s, entry& e) noexcept {
    e.next = nullptr;
    e.previous = s.tail;
    (s.tail != nullptr ? s.tail->next : s.head) = &e;
    s.tail = &e;
    ++entries_;
    if (s.next != nullptr) return;
    s.next = &e;
    settle(s);
    settle_woken();
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

  /// Finds where a stream stands now; passes what has nothing left to wait for.
  void settle(stream& s) noexcept {
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
        if (s.head != &e) return; // the end of its own work in flight comes back here
        s.where = standing::due;
        due_.push_back(s);
        return;
      }
      s.next = e.next;
      retire(s);
    }
  }

  /// Settles those whose reason to wait went; a list, not recursion, since one may wake the next.
  void settle_woken() noexcept {
    while (!woken_.empty()) settle(woken_.front()); // settle takes it off
  }

  /// Ends what stands at the stream's front and has nothing left to run.
  void retire(stream& s) noexcept {
    while (s.head != s.next) {
      entry& e = *s.head;
      if (e.is_device_work() && e.ended != e.size) return;
      s.head = e.next;
      (s.head != nullptr ? s.head->previous : s.tail) = nullptr;
      end(e);
    }
  }

  /// After work of a stream ended.
  void settle_after_end(stream& s) noexcept {
    retire(s);
    if (s.in_flight == 0) s.lane.reset();
    if (s.next != nullptr && s.where == standing::unlisted) settle(s);
    settle_woken();
  }

  /// Forgets what a stream has not dispatched. Wakes nobody: the caller drops all streams,
  /// then calls settle_woken and clear_later_phases.
  void drop(stream& s) noexcept {
    unlist(s);
    entry* e = s.next;
    if (e != nullptr && e->dispatched > 0) e->size = e->dispatched; // a program in part
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

  /// As unlist and settle, for a ready stream whose next entry has become a later one.
  void settle_ready(stream& s) noexcept {
    if (s.next != nullptr && s.next->is_device_work() &&
        (s.next->phase == nullptr || s.next->phase == front_)) {
      auto after = ready_.iterator_to(s);
      if (++after == ready_.end() || s.next->serial < after->order) {
        s.order = s.next->serial; // it keeps its place
        return;
      }
    }
    settle(s);
    settle_woken();
  }

  /// Gives back the phases; nothing may be unended.
  void clear_phases() noexcept {
    if (front_ == nullptr) return;
    clear_later_phases();
    phase_parts_->give(*front_);
    front_ = back_ = nullptr;
  }

  /// After all that could not start was dropped: what is left belongs to the front phase.
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
