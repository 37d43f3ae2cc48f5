// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>

#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gsched::channel {

/// What a ring's slot is: it begins with its turn, and fills a cache line.
template <class S>
concept ring_slot = std::is_trivially_copyable_v<S> && sizeof(S) == sync::cache_line &&
                    requires(S s) { requires std::is_same_v<decltype(s.turn), std::uint32_t>; };

/// The writing side of a ring of slots between two processes: one writer, one reader.
///
/// The n-th message goes to slot n % slots and carries the turn n / slots + 1, which is written
/// last. So a message costs the reader one cache line, and no index is shared. The writer must not
/// lap the reader: at most as many messages are unread as there are slots. A request ring and its
/// reply ring keep that together, since a client has at most so many requests without a reply that
/// it has read, and each request gets one reply.
///
/// Errors   none. A turn repeats after 2^32 laps, of at least two messages each.
/// Cost     write: 64 bytes and one exchange; one store with release.
/// Threads  one writer.
template <ring_slot S>
class slot_writer {
public:
  slot_writer(S* slots, std::uint32_t count) noexcept
      : slots_(slots), mask_(count - 1), shift_(std::countr_zero(count)) {
    assert(std::has_single_bit(count));
  }

  /// Publishes the message; the turn in it is ignored. With seq_cst it is ordered before later
  /// seq_cst loads of this thread, so that a writer which then sees the reader awake need not wake
  /// it; with release it is not.
  void write(const S& message, std::memory_order order = sync::seq_cst) noexcept {
    S& to = slots_[index()];
    std::memcpy(reinterpret_cast<std::byte*>(&to) + sizeof(std::uint32_t),
                reinterpret_cast<const std::byte*>(&message) + sizeof(std::uint32_t),
                sizeof(S) - sizeof(std::uint32_t));
    const sync::atomic_ref<std::uint32_t> written(to.turn);
    // [C1] release, seq_cst -> [C1] acquire, seq_cst in was_written and try_read
    if (order == sync::release)
      written.store(turn(), sync::release);
    else
      written.exchange(turn(), sync::seq_cst);
    ++next_;
  }

  /// Asks the cache for the place of the next message, which its reader has had.
  void prefetch() const noexcept { __builtin_prefetch(&slots_[index()], 1); }

  /// Of the next message.
  [[nodiscard]] std::uint32_t index() const noexcept { return index_of(next_); }
  [[nodiscard]] std::uint32_t turn() const noexcept { return turn_of(next_); }
  /// Of the n-th message, from 0.
  [[nodiscard]] std::uint32_t index_of(std::uint64_t n) const noexcept {
    return static_cast<std::uint32_t>(n) & mask_;
  }
  [[nodiscard]] std::uint32_t turn_of(std::uint64_t n) const noexcept {
    return static_cast<std::uint32_t>(n >> shift_) + 1;
  }
  /// Messages written so far.
  [[nodiscard]] std::uint64_t written() const noexcept { return next_; }

private:
  S* slots_;
  std::uint32_t mask_;
  int shift_;
  std::uint64_t next_ = 0;
};

/// The reading side. Whatever the writer does, a read takes bounded time, touches the slots alone,
/// and yields a copy that no longer changes.
///
/// Errors   none: bytes of a hostile writer are as good as others until their reader checks them.
/// Cost     a load where nothing was written; 64 bytes and a load for a message.
/// Threads  one reader.
template <ring_slot S>
class slot_reader {
public:
  slot_reader(S* slots, std::uint32_t count) noexcept
      : slots_(slots), mask_(count - 1), shift_(std::countr_zero(count)) {
    assert(std::has_single_bit(count));
  }

  /// Copies the next message; false if it was not written yet.
  [[nodiscard]] bool try_read(S& out) noexcept {
    if (!was_written(sync::acquire)) return false;
    std::memcpy(&out, &slots_[index()], sizeof(S));
    ++next_;
    return true;
  }
  /// Whether try_read would find one. With seq_cst it is ordered after earlier seq_cst stores of
  /// this thread: a reader that has said that it sleeps, and then finds nothing, is woken.
  [[nodiscard]] bool was_written(std::memory_order order = sync::seq_cst) const noexcept {
    // [C1] acquire, seq_cst <- [C1] release, seq_cst in write
    return sync::atomic_ref<std::uint32_t>(slots_[index()].turn).load(order) == turn();
  }

  /// Asks the cache for a message that will be read soon: `ahead` behind the next one.
  void prefetch(std::uint32_t ahead) const noexcept {
    __builtin_prefetch(&slots_[(index() + ahead) & mask_]);
  }

  /// Of the next message.
  [[nodiscard]] std::uint32_t index() const noexcept {
    return static_cast<std::uint32_t>(next_) & mask_;
  }
  [[nodiscard]] std::uint32_t turn() const noexcept {
    return static_cast<std::uint32_t>(next_ >> shift_) + 1;
  }
  /// Messages read so far.
  [[nodiscard]] std::uint64_t read() const noexcept { return next_; }

private:
  S* slots_;
  std::uint32_t mask_;
  int shift_;
  std::uint64_t next_ = 0;
};

} // namespace gsched::channel
