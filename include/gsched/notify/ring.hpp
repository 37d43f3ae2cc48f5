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

/// Counts of the tickets that the reader of a ring has processed.
struct ring_counts {
  std::uint64_t read = 0;        ///< words passed to the caller
  std::uint64_t overwritten = 0; ///< words that a later lap overwrote before they were read
  std::uint64_t invalid = 0;     ///< words that encode no notification
  std::uint64_t lost = 0;        ///< tickets without a word when all words had to be there

  /// The number of processed tickets.
  [[nodiscard]] constexpr std::uint64_t tickets() const noexcept {
    return read + overwritten + invalid + lost;
  }
  /// Whether every word was read exactly once.
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

/// The writing side of the notification ring, as a kernel implements it. ring_reader describes the
/// protocol.
///
/// Errors   too_small: the capacity is below 2 or is not a power of two.
/// Threads  any number; copies share the slots and the ticket counter.
class ring_writer {
public:
  ring_writer(std::span<std::uint64_t> slots, std::uint64_t& ticket)
      : slots_(slots.data()), mask_(detail::checked_slots(slots.size()) - 1),
        shift_(std::countr_zero(slots.size())), ticket_(&ticket) {}

  /// Reports a group of blocks. Never blocks and never fails.
  void push(const notification& n) noexcept { publish(claim(), pack(n)); }

  /// Takes the next ticket: the first half of push().
  [[nodiscard]] std::uint64_t claim() noexcept {
    // relaxed (device scope on a GPU): tickets must be distinct, and publish nothing.
    return sync::atomic_ref<std::uint64_t>(*ticket_).fetch_add(1, sync::relaxed);
  }

  /// Writes the word of a ticket: the second half of push(). Everything that the writer wrote
  /// before becomes visible with it.
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

/// The reading side of the notification ring. Many writers (blocks of instrumented kernels) and one
/// reader (the dispatcher) share it; no writer ever waits.
///
/// A writer takes a ticket t and stores its word into slot t % capacity, marked with its lap, t /
/// capacity + 1. The reader visits the tickets in order and compares the lap of the slot with the
/// lap that it expects:
///
///   equal     the word has arrived; it is read once and the reader advances;
///   earlier   the word has not arrived (an unwritten slot is zero and counts as lap 0);
///   later     the word was overwritten before it was read; it is counted, the reader advances,
///             and the later word is read when its own ticket is next.
///
/// So every ticket is either read once or counted once, whatever the writers do. Flow control
/// (flow_control.hpp) prevents the last case. A word can be missing because its writer died, or
/// because a writer that was late by a lap overwrote it. The reader then waits at that ticket until
/// a later lap appears in the slot or finalise() is called, and counts the word. Lap numbers repeat
/// after 16384 laps: if flow control fails and the reader is 8192 laps behind, it can mistake one
/// lap for another.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 5.2.
/// Differs  the paper's reader resets each slot that it has read. A word that arrives between its
///          load and its store is erased, and the reader waits at that slot for ever. With laps the
///          reader never writes, and only the writers dirty the cache lines. A writer that
///          exchanged words atomically could detect the loss too, but would wait for a round trip
///          over the bus.
/// Errors   too_small: the capacity is below 2 or is not a power of two.
/// Threads  any number of writers, one reader.
class ring_reader {
public:
  explicit ring_reader(std::span<std::uint64_t> slots)
      : slots_(slots.data()), mask_(detail::checked_slots(slots.size()) - 1),
        shift_(std::countr_zero(slots.size())) {}

  /// Passes the words that have arrived to f(const notification&), in ticket order and at most
  /// `most` of them. Returns their number. Ends after two loads a slot, whatever the slots contain.
  template <class F>
  std::size_t drain(F&& f, std::size_t most = std::numeric_limits<std::size_t>::max()) noexcept {
    const std::uint64_t before = counts_.read;
    for (std::uint64_t looks = 2 * capacity(); looks > 0 && counts_.read - before < most; --looks)
      if (!try_next(f)) break;
    return static_cast<std::size_t>(counts_.read - before);
  }

  /// Loads the slot of the next ticket once. Returns false if its word has not arrived. Otherwise
  /// passes the word to f, or counts it as overwritten or invalid, and returns true.
  template <class F>
  [[nodiscard]] bool try_next(F&& f) noexcept {
    // [R1] acquire (system scope if a GPU writes) <- [R1] release in publish: the word, and what
    // its writer wrote before it.
    const std::uint64_t word =
        sync::atomic_ref<std::uint64_t>(slots_[next_ & mask_]).load(sync::acquire);
    const std::uint64_t expected = ((next_ >> shift_) + 1) & word_layout::lap_mask;
    if (lap_of(word) != expected) return was_overtaken(word, expected);
    // where lap numbers wrap, an unwritten slot has the expected lap
    if (word == nothing_here) return false;
    ++next_;
    if (const std::optional<notification> n = unpack(word)) {
      ++counts_.read;
      f(*n);
    } else {
      ++counts_.invalid;
    }
    return true;
  }

  /// Reads the words that have arrived for the first `tickets` tickets, and counts the other
  /// tickets as lost. For use after all writers have finished: pass flow_control::total() once
  /// nothing is reserved.
  template <class F>
  void finalise(std::uint64_t tickets, F&& f) noexcept {
    while (next_ < tickets) {
      if (try_next(f)) continue;
      ++next_;
      ++counts_.lost;
    }
  }

  [[nodiscard]] const ring_counts& counts() const noexcept { return counts_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

private:
  /// Lap numbers wrap: within half of the field, the larger number is the later lap.
  [[nodiscard]] bool was_overtaken(std::uint64_t word, std::uint64_t expected) noexcept {
    const std::uint64_t ahead = (lap_of(word) - expected) & word_layout::lap_mask;
    if (word == nothing_here || ahead > word_layout::lap_mask / 2) return false;
    // All tickets below that of the found word were given out, and each that is a lap or more below
    // it was overwritten or is about to be. The reader skips them at once.
    const std::uint64_t passed = ((ahead - 1) << shift_) + 1;
    next_ += passed;
    counts_.overwritten += passed;
    return true;
  }

  std::uint64_t* slots_;
  std::uint64_t mask_;
  int shift_;
  std::uint64_t next_ = 0; ///< next ticket to read
  ring_counts counts_;
};

/// A ring in host memory, for threads and simulations. On a GPU the slots are pinned host memory
/// and the ticket counter is in device memory.
class host_ring {
public:
  explicit host_ring(std::size_t slots)
      : slots_(detail::checked_slots(slots), nothing_here), reader_(slots_) {}
  host_ring(const host_ring&) = delete;
  host_ring& operator=(const host_ring&) = delete;

  [[nodiscard]] ring_writer writer() { return {slots_, ticket_}; }
  [[nodiscard]] ring_reader& reader() noexcept { return reader_; }
  /// The number of tickets given out.
  [[nodiscard]] std::uint64_t was_claimed() noexcept {
    // relaxed: a snapshot; a caller that needs the exact number joins the writers first.
    return sync::atomic_ref<std::uint64_t>(ticket_).load(sync::relaxed);
  }

private:
  std::vector<std::uint64_t> slots_;
  alignas(sync::cache_line) std::uint64_t ticket_ = 0;
  alignas(sync::cache_line) ring_reader reader_;
};

} // namespace gsched
