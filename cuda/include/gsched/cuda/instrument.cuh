// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/launch_counters.hpp>
#include <gsched/cuda/report.hpp>
#include <gsched/notify/word.hpp>

#include <cstdint>

/// The first line of a kernel that reports where and when its blocks run:
///
///   __global__ void scale(gsched::cuda::report report, float* x, float by) {
///     GSCHED_INSTRUMENT(report);
///     ...
///
/// From there on each block is counted as it starts and as the last of its threads returns, and
/// words go into the notification ring (notification_ring.hpp): one for every block, or one for
/// every report::group blocks. Threads may return where and when they like, one by one, while
/// others wait at barriers. All of them pass this line, before anything else.
///
/// Under GSCHED_NO_INSTRUMENT it is nothing, and the kernel is the plain one.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 4.1 and figure 6.
/// Differs  no barrier at a block's end, which would hang where threads have returned early; a word
///          of an end never comes before those of the starts that it counts.
/// Errors   a thread that leaves otherwise than by returning (exit in assembly) is not counted, and
///          its block never ends.
/// Cost     four bytes of shared memory; no local memory; up to four registers more where a kernel
///          has ten or more. A start, and an end, is one round trip to L2 for thread 0 (the last
///          thread) and another for who reports a group. Kernels that report nothing pay for one
///          test of a parameter at either end.
#ifdef GSCHED_NO_INSTRUMENT
#define GSCHED_INSTRUMENT(report) static_cast<void>(report)
#else
#define GSCHED_INSTRUMENT(report)                                                                  \
  __shared__ unsigned gsched_exits_;                                                               \
  const ::gsched::cuda::detail::instrumented_block gsched_block_ { report, gsched_exits_ }
#endif

namespace gsched::cuda::detail {

#define GSCHED_INLINE __device__ __forceinline__

// Atomics of device scope, relaxed: each word is all that its writer has to say. ptxas makes one
// elected lane of a warp run an atomic add whose operand is uniform, at the price of registers and
// shuffles; `by` comes from something that differs by lane as far as it can tell.
GSCHED_INLINE std::uint64_t add(std::uint64_t* where, std::uint64_t by) {
  std::uint64_t before;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(where), "l"(by));
  return before;
}

GSCHED_INLINE void add_only(std::uint64_t* where, std::uint64_t by) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(where), "l"(by));
}

GSCHED_INLINE std::uint64_t load(const std::uint64_t* where) {
  std::uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(where));
  return value;
}

GSCHED_INLINE std::uint32_t load_lower(const std::uint64_t* where) {
  std::uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(where));
  return value;
}

GSCHED_INLINE void store(std::uint64_t* where, std::uint64_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(where), "l"(value));
}

GSCHED_INLINE std::uint32_t this_sm() {
  std::uint32_t sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}

GSCHED_INLINE std::uint32_t last_of_grid() { return gridDim.x * gridDim.y * gridDim.z - 1; }

/// Adds one to the exits of this block. Release and acquire among the block: what was done before
/// any exit, such as taking a ticket for the block's start, is before what the last one does.
GSCHED_INLINE std::uint32_t count_exit(unsigned& exits) {
  std::uint32_t before;
  asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(&exits))), "r"(1)
               : "memory");
  return before;
}

/// ring_writer::publish. The store is posted: nobody waits for it here, and it is relaxed at system
/// scope, as the word is all there is to publish.
GSCHED_INLINE void publish(const report& r, std::uint64_t ticket, std::uint32_t instance,
                           std::uint32_t upper) {
  const auto low = static_cast<std::uint32_t>(ticket);
  const auto high = static_cast<std::uint32_t>(ticket >> 32);
  const std::uint32_t marked = with_laps(upper, __funnelshift_r(low, high, r.lap_shift));
  auto* const slot = reinterpret_cast<char*>(r.slots) + ((low << 3) & r.slot_mask);
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(slot),
               "l"(std::uint64_t{marked} << 32 | instance));
}

/// A block has started: thread 0 tells. `zero` is zero.
GSCHED_INLINE void report_start(const report& r, std::uint32_t zero) {
  const bool grouped = r.reciprocal != 0;
  std::uint64_t was;
  std::uint32_t place = 0;
  if (!grouped) {
    was = load(&r.counters->started); // the instance alone; on its way together with the ticket
  } else {
    was = add(&r.counters->started, zero + 1u);
    const auto before = static_cast<std::uint32_t>(was);
    place = place_in_group(before, r.reciprocal, r.group);
    if (place + 1 != r.group && before != last_of_grid()) return; // a later one tells
  }
  const std::uint64_t ticket = add(r.ticket, zero + 1u);
  place += static_cast<std::uint32_t>(ticket >> 63); // zero as well, but known with the ticket only
  publish(r, ticket, static_cast<std::uint32_t>(was >> 32),
          upper_half(notification_type::blocks_started, place, this_sm()));
  // [I1] -> [I1] in report_end: these blocks have their ticket. As the number that is added depends
  // on the ticket, the addition cannot reach L2 before the ticket has come back from there.
  if (grouped) add_only(&r.counters->claimed, place + 1u);
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
GSCHED_INLINE void report_end(const report& r, std::uint32_t zero) {
  std::uint32_t claimed = load_lower(&r.counters->claimed); // together with the count
  const std::uint64_t was = add(&r.counters->ended, zero + 1u);
  const auto before = static_cast<std::uint32_t>(was);
  const auto instance = static_cast<std::uint32_t>(was >> 32);
  std::uint32_t place = 0;
  if (r.reciprocal != 0) {
    place = place_in_group(before, r.reciprocal, r.group);
    if (place + 1 != r.group && before != last_of_grid()) return;
    while (claimed <= before) { // [I1] <- [I1] in report_start
      const std::uint64_t now = load(&r.counters->claimed);
      if (static_cast<std::uint32_t>(now >> 32) != instance) break;
      claimed = static_cast<std::uint32_t>(now);
    }
  }
  const std::uint64_t ticket = add(r.ticket, (before >> 31) + 1u);
  publish(r, ticket, instance, upper_half(notification_type::blocks_ended, place, this_sm()));
  if (before == last_of_grid()) {
    const std::uint64_t next = std::uint64_t{next_instance(instance)} << 32;
    store(&r.counters->started, next);
    store(&r.counters->ended, next);
    store(&r.counters->claimed, next);
  }
}

/// A thread's way through a kernel. Nothing of it stays in registers in between: it is read again
/// from the parameters.
class instrumented_block {
public:
  /// The barrier makes the counter of exits ready before anyone can exit. It is the kernel's first
  /// line, so all threads are there; it costs less than a counter in device memory for each block,
  /// which would need none.
  GSCHED_INLINE instrumented_block(const report& r, unsigned& exits) : report_(r), exits_(exits) {
    if (report_.counters == nullptr) return;
    const bool first = (threadIdx.x | threadIdx.y | threadIdx.z) == 0;
    if (first) exits_ = 0;
    __syncthreads();
    if (first) report_start(report_, threadIdx.x);
  }

  /// Every return of the kernel gets a copy of this, which ends the thread by itself: were they to
  /// run on into a common end, the compiler could have a warp's threads meet there, and those that
  /// return early would wait for others that wait for them at a barrier.
  GSCHED_INLINE ~instrumented_block() {
    if (report_.counters != nullptr) {
      const std::uint32_t before = count_exit(exits_);
      if (before + 1 == blockDim.x * blockDim.y * blockDim.z) report_end(report_, before >> 31);
    }
    asm volatile("exit;");
    __builtin_unreachable();
  }

  instrumented_block(const instrumented_block&) = delete;
  instrumented_block& operator=(const instrumented_block&) = delete;

private:
  const report& report_;
  unsigned& exits_;
};

#undef GSCHED_INLINE

} // namespace gsched::cuda::detail
