// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/entry.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>
#include <gsched/job/stream.hpp>
#include <gsched/job/waitlist_order.hpp>

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

/// What try_cut takes off a waitlist: consecutive device operations of one stream, which are now
/// dispatched. They stay in place until done or, after undo, until taken again.
struct cut {
  stream_id stream{};
  program_id program = no_program; ///< with `first`: the range, if it is one of a program
  std::uint32_t first = 0;
  std::span<const operation* const> operations{};
  duration expected{};
  bool last_work = false; ///< no device operation is left pending in the job
};

/// How far the next cut reaches: what measure says, for try_cut to take.
struct cut_extent {
  std::uint32_t operations = 0; ///< 0: nothing may start
  duration expected{};

  // Of what it was measured: whether it still holds.
  const void* launch = nullptr;
  std::uint64_t serial = 0;
  std::uint32_t first = 0;
  std::size_t pending = 0;
  duration quantum{};
};

/// What of a waitlist may start next: operations of a program, or launches outside of programs.
struct waiting_head {
  const program* graph = nullptr; ///< null for loose operations
  std::uint32_t at = 0;           ///< the program's next operation
  std::uint32_t end = 0;    ///< where it ends: earlier than the program, if the rest was dropped
  std::uint32_t copies = 0; ///< loose: so many copies and sets before anything else
};

/// A host function whose turn it is, and the stream that call_done goes to.
struct due_call : host_call {
  stream_id stream{};
};

/// The operations of one job in CUDA's order: streams, the legacy default stream against blocking
/// and non-blocking ones, per-thread default streams, events, host functions.
///
/// Source   Ng, Demoulin, Liu, SOSP'23, section 4.2 and figure 7, doi:10.1145/3600006.3613163;
///          CUDA's API documentation, "Stream synchronization behavior".
/// Differs  work that follows its own stream's work in flight is active: whoever dispatches puts
///          it on the same lane (`lane`, `bind`), and nothing waits for the host in between.
///          A stream's id is not used again before reset.
/// Order    the oldest launch that may start is cut first.
/// Errors   a stream or event that the job does not have: errc::bad_handle, and nothing changes.
/// Cost     amortised O(1) an operation, and O(log s) each time one of s > 1 streams that could
///          start changes its next launch; drop_pending and reset also O(streams).
/// Threads  one owner; no locking.
class waitlist : private waitlist_order {
public:
  explicit waitlist(entry_pool& pool, default_stream mode = default_stream::legacy)
      : waitlist_order(pool.entries_, pool.operations_, pool.phases_), pool_(&pool) {
    open(mode);
  }
  ~waitlist() { forget_all(); }

  /// As new: whatever was launched or created is gone. Nothing may be in flight on a device.
  void reset(default_stream mode) noexcept {
    forget_all();
    open(mode);
  }

  // The job's side ----------------------------------------------------------------------------

  [[nodiscard]] std::error_code create_stream(stream_kind kind, stream_id& id) noexcept;
  /// Work launched before still runs. The default streams cannot be destroyed.
  [[nodiscard]] std::error_code destroy_stream(stream_id) noexcept;
  /// May throw std::bad_alloc.
  [[nodiscard]] event_id create_event();
  [[nodiscard]] std::error_code destroy_event(event_id) noexcept;

  /// Copies the operation. One that is no device work acts as record, wait or call.
  [[nodiscard]] std::error_code launch(stream_id, const operation&) noexcept;
  /// The whole captured graph; it must outlive its execution.
  [[nodiscard]] std::error_code launch(stream_id, const program&) noexcept;
  [[nodiscard]] std::error_code record(event_id, stream_id) noexcept;
  /// Later work of the stream waits for the event's latest record before this call, if any.
  [[nodiscard]] std::error_code wait(stream_id, event_id) noexcept;
  [[nodiscard]] std::error_code call(stream_id, host_call) noexcept;

  [[nodiscard]] bool has(stream_id id) const noexcept {
    const stream* s = find(id);
    return s != nullptr && s->alive;
  }
  [[nodiscard]] bool has(event_id id) const noexcept {
    return index(id) < events_.size() && events_[index(id)].alive;
  }

  // The dispatcher's side ---------------------------------------------------------------------

  /// Some operation may be submitted now, or a host function is due.
  [[nodiscard]] bool has_active() const noexcept { return !ready_.empty() || !due_.empty(); }

  /// That stream's next operation may be submitted now.
  [[nodiscard]] bool has_active(stream_id id) const noexcept {
    const stream* s = find(id);
    return s != nullptr && s->where == standing::ready;
  }

  /// The host function that has been due for longest. The caller runs it, then calls call_done.
  [[nodiscard]] std::optional<due_call> try_take_call() noexcept;
  void call_done(stream_id) noexcept;

  /// What try_cut would take now with a buffer of that size.
  [[nodiscard]] cut_extent measure(duration quantum, std::size_t room) const noexcept;

  /// Takes about one quantum (program::cut's rule) from the oldest launch that may start, or from
  /// stream `only`. A cut ends where the launch ends if that is a program, and before a program, a
  /// record, a wait or a call. Loose operations go into the buffer, and no more than it holds.
  [[nodiscard]] std::optional<cut> try_cut(duration quantum, std::span<const operation*> buffer,
                                           std::optional<stream_id> only = {}) noexcept;
  /// The same from the oldest launch that may start, without measuring again where `known`, of a
  /// buffer of that size, still holds: the quantum is the same, and since then nothing was
  /// launched, taken or undone.
  [[nodiscard]] std::optional<cut> try_cut(const cut_extent& known, duration quantum,
                                           std::span<const operation*> buffer) noexcept;

  /// What try_cut would take from; of loose operations no more than `room` are looked at.
  [[nodiscard]] std::optional<waiting_head> head(std::size_t room) const noexcept;
  /// Takes exactly so many operations of what head says, as try_cut does: of its program, or loose
  /// ones into the buffer.
  [[nodiscard]] cut take_head(std::uint32_t operations,
                              std::span<const operation*> buffer) noexcept;

  /// The oldest n dispatched operations of the stream have ended.
  void done(stream_id, std::size_t operations) noexcept;
  /// The newest n dispatched operations of the stream were evicted before they started.
  void undo(stream_id, std::size_t operations) noexcept;

  /// Forgets what is not dispatched, host functions that do not run yet among it; an event whose
  /// latest record is forgotten is complete. For cancelled and failed jobs; after a later undo,
  /// call it again.
  void drop_pending() noexcept;

  [[nodiscard]] std::size_t in_flight(stream_id id) const noexcept { return at(id).in_flight; }
  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
  /// Device operations not yet dispatched.
  [[nodiscard]] std::size_t pending() const noexcept { return pending_; }

  /// Everything launched has ended. A stream that does not exist is idle; the legacy stream is
  /// when the blocking streams are too, since waiting for it is an action in it.
  [[nodiscard]] bool idle() const noexcept { return entries_ == 0; }
  [[nodiscard]] bool idle(stream_id id) const noexcept {
    const stream* s = find(id);
    if (s == &fixed_[0]) return ordered_work_ended();
    return s == nullptr || s->head == nullptr;
  }
  /// The event's latest record is done, or there is none.
  [[nodiscard]] bool complete(event_id id) const noexcept {
    return index(id) >= events_.size() || events_[index(id)].last == nullptr;
  }

  /// The lane that the stream's work in flight is on; the dispatcher's note, cleared when nothing
  /// is in flight.
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
  stream* default_ = nullptr;     ///< what stream_id{0} is
  std::array<stream, 2> fixed_{}; ///< legacy, per-thread
  entry_pool::stream_table created_{};
  entry_pool::event_table events_{};
  std::size_t in_flight_ = 0;
  std::size_t pending_ = 0;
};

} // namespace gsched

#include <gsched/job/waitlist_cut_impl.hpp>
#include <gsched/job/waitlist_impl.hpp>
