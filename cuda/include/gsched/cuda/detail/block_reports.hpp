// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/detail/launch_counters.hpp>
#include <gsched/cuda/report.hpp>
#include <gsched/notify/word.hpp>

#include <cstdint>

/// How the blocks of a launch share counters and a ring. Machine is what atomics, SM and grid are
/// taken from: the GPU that runs this (instrument.cuh), or threads of a host on which it is tested.
namespace gsched::cuda::detail {

#ifdef __CUDACC__
#define GSCHED_IN_KERNEL __device__ __forceinline__
#else
#define GSCHED_IN_KERNEL inline
#endif

/// ring_writer::publish. The store is posted: nobody waits for it here, and it is relaxed at system
/// scope, as the word is all there is to publish.
template <class Machine>
GSCHED_IN_KERNEL void publish(const report& r, std::uint64_t ticket, std::uint32_t instance,
                              std::uint32_t upper) {
  const auto low = static_cast<std::uint32_t>(ticket);
  const std::uint32_t marked = with_laps(upper, static_cast<std::uint32_t>(ticket >> r.lap_shift));
  auto* const slot = reinterpret_cast<char*>(r.slots) + ((low << 3) & r.slot_mask);
  Machine::store_word(reinterpret_cast<std::uint64_t*>(slot),
                      std::uint64_t{marked} << 32 | instance);
}

/// A block has started: thread 0 tells. `zero` is zero.
template <class Machine>
GSCHED_IN_KERNEL void report_start(const report& r, std::uint32_t zero) {
  const bool grouped = r.reciprocal != 0;
  std::uint64_t was;
  std::uint32_t place = 0;
  if (!grouped) { // for the instance alone, which comes together with the ticket
    was = Machine::load(&r.counters->started);
  } else {
    was = Machine::add(&r.counters->started, zero + 1u);
    const auto before = static_cast<std::uint32_t>(was);
    place = place_in_group(before, r.reciprocal, r.group);
    if (place + 1 != r.group && before != Machine::last_of_grid()) return; // a later one tells
  }
  const std::uint64_t ticket = Machine::add(r.ticket, zero + 1u);
  place += static_cast<std::uint32_t>(ticket >> 63); // zero as well, but known with the ticket only
  publish<Machine>(r, ticket, static_cast<std::uint32_t>(was >> 32),
                   upper_half(notification_type::blocks_started, place, Machine::this_sm()));
  // [I1] -> [I1] in report_end: these blocks have their ticket. As the number that is added depends
  // on the ticket, the addition cannot reach L2 before the ticket has come back from there.
  if (grouped) Machine::add_only(&r.counters->claimed, place + 1u);
}

/// A block has ended: its last thread tells.
///
/// Order: the words of a launch's ends must not be ahead of those of its starts, in blocks, at any
/// ticket. Where every block reports, a block's own start has its ticket before the block can end
/// (count_exit). In groups, a block that ends may have its start told by another one, which has
/// been counted but may have no ticket yet; so who tells of the first n ends waits until n starts
/// are claimed. That many started and were counted before those n ended, so that the groups are
/// full and each has someone on its way to the ticket: a running thread that waits for nothing. It
/// gets there whatever the others do, so this wait ends; mostly there is none.
///
/// Again: who ends last puts the counters back for the slot's next launch. No block of this launch
/// touches them later: each start was counted before its block ended, the tickets of the starts
/// were claimed before the last end was told, and the ends are counted. But for one: another that
/// waits for [I1] may find the counters put back, and knows by the instance that all is claimed.
/// The next launch begins when this one is complete, as launches of one slot do not overlap.
template <class Machine>
GSCHED_IN_KERNEL void report_end(const report& r, std::uint32_t zero) {
  const bool grouped = r.reciprocal != 0;
  std::uint64_t ticket = 0;
  std::uint32_t claimed = 0;
  if (grouped) // one or the other is on its way together with the count
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
