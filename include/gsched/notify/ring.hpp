// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/notify/word.hpp>

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gsched {

/// What became of the tickets of a ring that its reader has come to.
struct ring_counts {
  std::uint64_t read = 0;        ///< words handed out
  std::uint64_t overwritten = 0; ///< words of which a later lap took the slot
  std::uint64_t invalid = 0;     ///< words that are no notification
  std::uint64_t lost = 0;        ///< tickets without a word when all had to be there

  /// Tickets that were dealt with.
  [[nodiscard]] constexpr std::uint64_t tickets() const noexcept {
    return read + overwritten + invalid + lost;
  }
  /// Whether the ring's one promise was kept: every word read once.
  [[nodiscard]] constexpr bool intact() const noexcept {
    return overwritten == 0 && invalid == 0 && lost == 0;
  }
  bool operator==(const ring_counts&) const noexcept = default;
};

namespace detail {

[[nodiscard]] inline std::size_t checked_slots(std::size_t slots) {
  if (slots < 2 || !std::has_single_bit(slots))
    throw error(errc::too_small, "notification ring of " + std::to_string(slots) +
                                     " slots, expected a power of two from 2 on");
  return slots;
}

} // namespace detail

/// The writing side of the notification ring (ring_reader says how the two agree), as a kernel does
/// it.
///
/// Errors   too_small for a capacity that is not a power of two or below 2.
/// Threads  any number; copies share the slots and the ticket.
class ring_writer {
public:
  ring_writer(std::span<std::uint64_t> slots, std::uint64_t& ticket)
      : slots_(slots.data()), mask_(detail::checked_slots(slots.size()) - 1),
        shift_(std::countr_zero(slots.size())), ticket_(&ticket) {}

  /// Reports a group of blocks. Never blocks and never fails.
  void push(const notification& n) noexcept { publish(claim(), pack(n)); }

  /// The first half of push: a place in the order.
  [[nodiscard]] std::uint64_t claim() noexcept {
    // relaxed, device scope on a GPU: tickets need to differ, they publish nothing.
    return sync::atomic_ref<std::uint64_t>(*ticket_).fetch_add(1, sync::relaxed);
  }

  /// The second half: the word becomes visible, and with it all that its writer wrote before.
  void publish(std::uint64_t ticket, std::uint64_t word) noexcept {
    const std::uint64_t marked = with_lap(word, (ticket >> shift_) + 1);
    // [R1] release (system scope on a GPU) -> [R1] acquire in try_next: publishes the word and what
    // the block wrote before it.
    sync::atomic_ref<std::uint64_t>(slots_[ticket & mask_]).store(marked, sync::release);
  }

private:
  std::uint64_t* slots_;
  std::uint64_t mask_;
  int shift_;
  std::uint64_t* ticket_;
};

/// The reading side of the notification ring: many writers (the blocks of instrumented kernels),
/// one reader (the dispatcher), and nothing that a writer waits for.
///
/// A writer takes a ticket t and stores its word into slot t % capacity, marked with its lap,
/// t / capacity + 1. The reader goes through the tickets in order and looks at the slot's lap:
///
///   the lap it expects   the word is there: it is read, once, and the reader goes on;
///   an earlier one       not written yet (zero, a slot never written, counts as lap 0);
///   a later one          the word was overwritten before it was read: counted, and the reader goes
///                        on; the later word stays for its own turn.
///
/// So every ticket is read once or counted once, whatever the writers do. Flow control sees to it
/// that the last case does not happen (flow_control.hpp). A word that never came, because its
/// writer died or a writer late by a whole lap wrote over it, holds the reader up until a later lap
/// shows or settle() says that no more words are to come; then it is counted as well. Laps come
/// round after 16384: a reader that flow control failed and that is 8192 laps behind may take one
/// for another.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 5.2.
/// Differs  the paper's reader resets what it has read. A word that lands between its load and its
///          store is then erased without a trace, and the reader waits on that slot for ever; by
///          lap it never writes, and the lines it reads are dirtied by one side only. A writer that
///          exchanges could tell too, but would wait for an answer across the bus.
/// Errors   too_small for a capacity that is not a power of two or below 2.
/// Threads  any number of writers, one reader.
class ring_reader {
public:
  explicit ring_reader(std::span<std::uint64_t> slots)
      : slots_(slots.data()), mask_(detail::checked_slots(slots.size()) - 1),
        shift_(std::countr_zero(slots.size())) {}

  /// Hands the words that have come, in order of their tickets, to f(const notification&), at most
  /// `most` of them. Returns how many. It ends after two looks a slot, whatever is in them.
  template <class F>
  std::size_t drain(F&& f, std::size_t most = std::numeric_limits<std::size_t>::max()) noexcept {
    const std::uint64_t before = counts_.read;
    for (std::uint64_t looks = 2 * capacity(); looks > 0 && counts_.read - before < most; --looks)
      if (!try_next(f)) break;
    return static_cast<std::size_t>(counts_.read - before);
  }

  /// Looks at the next ticket, by one load. False if nothing has come there yet. Else it is dealt
  /// with: handed to f, or counted as overwritten or invalid.
  template <class F>
  [[nodiscard]] bool try_next(F&& f) noexcept {
    // [R1] acquire (system scope if a GPU writes) <- [R1] release in publish: the word, and what
    // its writer wrote before it.
    const std::uint64_t word =
        sync::atomic_ref<std::uint64_t>(slots_[next_ & mask_]).load(sync::acquire);
    const std::uint64_t expected = ((next_ >> shift_) + 1) & word_layout::lap_mask;
    if (lap_of(word) != expected) return was_overtaken(word, expected);
    if (word == nothing_here) return false; // where laps wrap, zero has the lap of a word
    ++next_;
    if (const std::optional<notification> n = unpack(word)) {
      ++counts_.read;
      f(*n);
    } else {
      ++counts_.invalid;
    }
    return true;
  }

  /// Reads what is there of the first `tickets` tickets and counts the rest of them as lost. For
  /// when the writers are known to have finished: flow_control::total() once nothing is reserved.
  template <class F>
  void settle(std::uint64_t tickets, F&& f) noexcept {
    while (next_ < tickets) {
      if (try_next(f)) continue;
      ++next_;
      ++counts_.lost;
    }
  }

  [[nodiscard]] const ring_counts& counts() const noexcept { return counts_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

private:
  /// Laps are compared as they come round: within half of the field, larger is later.
  [[nodiscard]] bool was_overtaken(std::uint64_t word, std::uint64_t expected) noexcept {
    const std::uint64_t ahead = (lap_of(word) - expected) & word_layout::lap_mask;
    if (word == nothing_here || ahead > word_layout::lap_mask / 2) return false;
    // So far on, all tickets below that word's are given out, and every one that is a lap or more
    // below it was overwritten or is about to be: the reader catches up at once.
    const std::uint64_t passed = ((ahead - 1) << shift_) + 1;
    next_ += passed;
    counts_.overwritten += passed;
    return true;
  }

  std::uint64_t* slots_;
  std::uint64_t mask_;
  int shift_;
  std::uint64_t next_ = 0; ///< ticket
  ring_counts counts_;
};

/// A ring in host memory, for threads and simulations. On a GPU the slots are pinned memory and the
/// ticket lies on the device.
class host_ring {
public:
  explicit host_ring(std::size_t slots)
      : slots_(detail::checked_slots(slots), nothing_here), reader_(slots_) {}
  host_ring(const host_ring&) = delete;
  host_ring& operator=(const host_ring&) = delete;

  [[nodiscard]] ring_writer writer() { return {slots_, ticket_}; }
  [[nodiscard]] ring_reader& reader() noexcept { return reader_; }
  /// Tickets given out.
  [[nodiscard]] std::uint64_t was_claimed() noexcept {
    // relaxed: a snapshot; whoever needs it exact has joined the writers.
    return sync::atomic_ref<std::uint64_t>(ticket_).load(sync::relaxed);
  }

private:
  std::vector<std::uint64_t> slots_;
  alignas(sync::cache_line) std::uint64_t ticket_ = 0;
  alignas(sync::cache_line) ring_reader reader_;
};

} // namespace gsched
