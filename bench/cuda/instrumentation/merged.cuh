// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/notify/instrument.cuh>

#include <cstddef>
#include <cstdint>

/// Starts and ends as in gsched/cuda/detail/block_reports.hpp, but the upper half of the word that
/// counts the ends counts the blocks whose start has a ticket: one request to L2 returns both.
namespace instrumentation::merged {

using gsched::notification_type;
using gsched::cuda::report;
namespace library = gsched::cuda::detail;
using machine = library::this_gpu;

__device__ __forceinline__ std::uint32_t upper_of(const std::uint64_t* where) {
  std::uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1+4];" : "=r"(value) : "l"(where));
  return value;
}

/// The initial counter of ends of a launch: the lowest bit of the instance is its highest.
__host__ __device__ __forceinline__ std::uint64_t none_ended(std::uint32_t instance) {
  return std::uint64_t{instance} << 63;
}

/// After two requests: the other counter may have been reset for the next launch in between.
__device__ __forceinline__ std::uint32_t instance_of(std::uint32_t seen, std::uint64_t ended) {
  constexpr std::uint32_t replays = (1u << gsched::cuda::replay_bits) - 1;
  const std::uint32_t ahead = (seen ^ static_cast<std::uint32_t>(ended >> 63)) & 1;
  return (seen & ~replays) | ((seen - ahead) & replays);
}

__device__ __forceinline__ std::uint32_t covered_in(std::uint64_t ended) {
  return static_cast<std::uint32_t>(ended >> 32) & 0x7fff'ffffu;
}

static_assert(offsetof(gsched::cuda::launch_counters, claimed) ==
              offsetof(gsched::cuda::launch_counters, ended) + sizeof(std::uint64_t));

/// The start of a block adds what the library adds to `claimed`.
struct start_machine : machine {
  static __device__ __forceinline__ void add_only(std::uint64_t* claimed, std::uint64_t by) {
    machine::add_only(claimed - 1, by << 32);
  }
};

__device__ __forceinline__ void end(const report& r, std::uint32_t zero) {
  const bool grouped = r.reciprocal != 0;
  std::uint64_t ticket = 0;
  if (!grouped) ticket = machine::add(r.ticket, zero + 1u);
  std::uint64_t was = machine::add(&r.counters->ended, zero + 1u);
  const auto before = static_cast<std::uint32_t>(was);
  std::uint32_t place = 0;
  if (grouped) {
    place = gsched::cuda::place_in_group(before, r.reciprocal, r.group);
    if (place + 1 != r.group && before != machine::last_of_grid()) return;
  }
  const std::uint32_t seen = upper_of(&r.counters->started);
  if (grouped) {
    while (covered_in(was) <= before) {
      const std::uint64_t now = machine::load(&r.counters->ended);
      if (static_cast<std::uint32_t>(now) <= before) break;
      was = now;
    }
    ticket = machine::add(r.ticket, (before >> 31) + 1u);
  }
  const std::uint32_t instance = instance_of(seen, was);
  library::publish<machine>(
      r, ticket, instance,
      gsched::cuda::upper_half(notification_type::blocks_ended, place, machine::this_sm()));
  if (before == machine::last_of_grid()) {
    const std::uint32_t next = gsched::cuda::next_instance(instance);
    machine::store(&r.counters->started, std::uint64_t{next} << 32);
    machine::store(&r.counters->ended, none_ended(next));
  }
}

} // namespace instrumentation::merged
