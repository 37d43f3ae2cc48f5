// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/detail/launch_counters.hpp>
#include <gsched/cuda/notify/report.hpp>
#include <gsched/notify/word.hpp>

#include <cstdint>

/// How the blocks of a launch share counters and a ring. Machine provides the atomics, the SM and
/// the grid: the GPU (instrument.cuh), or host threads in a test.
namespace gsched::cuda::detail {

#ifdef __CUDACC__
#define GSCHED_IN_KERNEL __device__ __forceinline__
#else
#define GSCHED_IN_KERNEL inline
#endif

/// Writes a word, as ring_writer::publish does. The store is posted: the thread does not wait for
/// it. It is relaxed at system scope, because the word publishes nothing else.
template <class Machine>
GSCHED_IN_KERNEL void publish(const report& r, std::uint64_t ticket, std::uint32_t instance,
                              std::uint32_t upper) {
  const auto low = static_cast<std::uint32_t>(ticket);
  const std::uint32_t marked = with_laps(upper, static_cast<std::uint32_t>(ticket >> r.lap_shift));
  auto* const slot = reinterpret_cast<char*>(r.slots) + ((low << 3) & r.slot_mask);
  Machine::store_word(reinterpret_cast<std::uint64_t*>(slot),
                      std::uint64_t{marked} << 32 | instance);
}

/// Reports the start of a block. Runs in thread 0. `zero` is 0.
template <class Machine>
GSCHED_IN_KERNEL void report_start(const report& r, std::uint32_t zero) {
  const bool grouped = r.reciprocal != 0;
  std::uint64_t was;
  std::uint32_t place = 0;
  if (!grouped) { // only the instance is needed; it arrives together with the ticket
    was = Machine::load(&r.counters->started);
  } else {
    was = Machine::add(&r.counters->started, zero + 1u);
    const auto before = static_cast<std::uint32_t>(was);
    place = place_in_group(before, r.reciprocal, r.group);
    if (place + 1 != r.group && before != Machine::last_of_grid()) return; // a later block reports
  }
  const std::uint64_t ticket = Machine::add(r.ticket, zero + 1u);
  place += static_cast<std::uint32_t>(ticket >> 63); // adds 0, and makes place depend on the ticket
  publish<Machine>(r, ticket, static_cast<std::uint32_t>(was >> 32),
                   upper_half(notification_type::blocks_started, place, Machine::this_sm()));
  // [I1] -> [I1] in report_end: these blocks have their ticket. The added value depends on the
  // ticket, so the add cannot reach L2 before the ticket has returned from there.
  if (grouped) Machine::add_only(&r.counters->claimed, place + 1u);
}

/// Reports the end of a block. Runs in its last thread.
///
/// Order    at every ticket, the words of ends must not cover more blocks than the words of starts
///          before them. Without groups, a block's start has its ticket before the block can end
///          (count_exit). With groups, another block may report the start of a block that ends;
///          that block has been counted, but may not have its ticket yet. The reporter of the first
///          n ends therefore waits until n starts are claimed. Those starts were counted before the
///          n ends, so their groups are full, and a running thread of each group is about to take
///          the ticket without waiting for anything. The wait therefore ends; mostly there is none.
///
/// The last block to end resets the counters for the slot's next launch. No block of this launch
/// touches them later: each start was counted before its block ended, the tickets of the starts
/// were claimed before the last end was reported, and the ends are counted. One exception: a thread
/// that waits for [I1] may find the counters reset, and detects by the instance that everything is
/// claimed. The next launch begins after this one is complete, because launches of one slot do not
/// overlap.
template <class Machine>
GSCHED_IN_KERNEL void report_end(const report& r, std::uint32_t zero) {
  const bool grouped = r.reciprocal != 0;
  std::uint64_t ticket = 0;
  std::uint32_t claimed = 0;
  if (grouped) // issued together with the count below
    claimed = Machine::load_lower(&r.counters->claimed);
  else
    ticket = Machine::add(r.ticket, zero + 1u);
  const std::uint64_t was = Machine::add(&r.counters->ended, zero + 1u);
  const auto before = static_cast<std::uint32_t>(was);
  const auto instance = static_cast<std::uint32_t>(was >> 32);
  std::uint32_t place = 0;
  if (grouped) {
    place = place_in_group(before, r.reciprocal, r.group);
    if (place + 1 != r.group && before != Machine::last_of_grid()) return;
    while (claimed <= before) { // [I1] <- [I1] in report_start
      const std::uint64_t now = Machine::load(&r.counters->claimed);
      if (static_cast<std::uint32_t>(now >> 32) != instance) break;
      claimed = static_cast<std::uint32_t>(now);
    }
    ticket = Machine::add(r.ticket, (before >> 31) + 1u); // zero + 1 would hold a register
  }
  publish<Machine>(r, ticket, instance,
                   upper_half(notification_type::blocks_ended, place, Machine::this_sm()));
  if (before == Machine::last_of_grid()) {
    const std::uint64_t next = std::uint64_t{next_instance(instance)} << 32;
    Machine::store(&r.counters->started, next);
    Machine::store(&r.counters->ended, next);
    Machine::store(&r.counters->claimed, next);
  }
}

#undef GSCHED_IN_KERNEL

} // namespace gsched::cuda::detail
