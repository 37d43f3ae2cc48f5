// SPDX-License-Identifier: Apache-2.0
// How the blocks of a launch share counters and a ring, on host threads: with random interleavings,
// and a possible interruption at each operation on shared memory.
#include "instrument_ledger.hpp"

#include <gsched/core/sync.hpp>
#include <gsched/cuda/detail/block_reports.hpp>
#include <gsched/cuda/notify/notification_ring.hpp>
#include <gsched/notify/ring.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace {

using namespace gsched;
using cuda::launch_counters;
using testing::ledger;

struct on_threads {
  static inline thread_local std::minstd_rand random;
  static inline thread_local std::uint32_t sm = 0;
  static inline std::uint32_t last = 0;
  static inline const testing::time_limit* limit = nullptr;

  static sync::atomic_ref<std::uint64_t> at(const std::uint64_t* where) {
    if (random() % 3 == 0) std::this_thread::yield();
    return sync::atomic_ref<std::uint64_t>(*const_cast<std::uint64_t*>(where));
  }
  // seq_cst: models the order that dependencies give on a GPU.
  static std::uint64_t add(std::uint64_t* where, std::uint64_t by) {
    return at(where).fetch_add(by, sync::seq_cst);
  }
  static void add_only(std::uint64_t* where, std::uint64_t by) { add(where, by); }
  static std::uint64_t load(const std::uint64_t* where) {
    limit->look();
    return at(where).load(sync::seq_cst);
  }
  static std::uint32_t load_lower(const std::uint64_t* where) {
    return static_cast<std::uint32_t>(load(where));
  }
  static void store(std::uint64_t* where, std::uint64_t value) {
    at(where).store(value, sync::seq_cst);
  }
  static void store_word(std::uint64_t* where, std::uint64_t word) {
    at(where).store(word, sync::seq_cst); // [R1] of ring.hpp
  }
  static std::uint32_t this_sm() { return sm; }
  static std::uint32_t last_of_grid() { return last; }
};

/// One launch: threads take blocks as they become free.
void launch(const cuda::report& r, std::uint32_t blocks, unsigned threads, unsigned seed) {
  on_threads::last = blocks - 1;
  std::uint64_t next = 0;
  std::vector<std::thread> running;
  for (unsigned t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      on_threads::random.seed(1 + seed * 97 + t);
      on_threads::sm = t;
      while (on_threads::add(&next, 1) < blocks) {
        cuda::detail::report_start<on_threads>(r, 0);
        cuda::detail::report_end<on_threads>(r, 0);
      }
    });
  for (std::thread& t : running) t.join();
}

} // namespace

TEST_CASE("blocks that start and end in any order keep counters and ring consistent") {
  const testing::time_limit limit("blocks on threads", 100);
  on_threads::limit = &limit;
  constexpr std::size_t slots = 256; // small enough for many laps
  std::vector<std::uint64_t> ring(slots, nothing_here);
  std::uint64_t ticket = 0;
  ring_reader reader(ring);
  ledger book(16);
  std::uint64_t words = 0;
  unsigned seed = 0;
  for (const std::uint32_t group : {1u, 2u, 7u, 16u})
    for (const std::uint32_t blocks : {1u, 2u, 15u, 16u, 17u, 33u, 100u}) {
      CAPTURE(group);
      CAPTURE(blocks);
      const std::uint32_t instance = 5u << cuda::replay_bits;
      launch_counters counters{std::uint64_t{instance} << 32, std::uint64_t{instance} << 32,
                               std::uint64_t{instance} << 32};
      cuda::report r;
      r.counters = &counters;
      r.slots = ring.data();
      r.ticket = &ticket;
      r.group = group;
      r.reciprocal = cuda::reciprocal_of(group);
      r.slot_mask = (slots - 1) * sizeof(std::uint64_t);
      r.lap_shift = std::countr_zero(slots);
      const cuda::launch_slot slot{5};
      book.expect(slot, blocks, group);
      std::uint32_t expected = instance;
      for (int again = 0; again < 40; ++again) {
        launch(r, blocks, 8, seed++);
        words += 2 * ((blocks + group - 1) / group);
        while (reader.drain(book) > 0) {
        }
        expected = cuda::next_instance(expected);
        const std::uint64_t fresh = std::uint64_t{expected} << 32;
        CHECK((counters.started == fresh && counters.ended == fresh && counters.claimed == fresh));
      }
      CHECK(book.launches_of(slot) == 40);
    }
  CHECK(book.words == words);
  CHECK(ticket == words);
  CHECK(book.strays == 0);
  CHECK(book.disorder == 0);
  CHECK(book.bad_groups == 0);
  CHECK(reader.counts().intact());
}

TEST_CASE("small launches report each block, large ones groups, unless asked") {
  CHECK(cuda::automatic_group(1) == 1);
  CHECK(cuda::automatic_group(cuda::every_block_up_to) == 1);
  CHECK(cuda::automatic_group(cuda::every_block_up_to + 1) == max_group_blocks);
  CHECK(cuda::automatic_group(cuda::max_reporting_blocks) == max_group_blocks);
}

TEST_CASE("the numbers of a slot's launches wrap around") {
  const std::uint32_t slot = 77u << cuda::replay_bits;
  std::uint32_t instance = slot;
  for (unsigned launch = 0; launch < (1u << cuda::replay_bits); ++launch) {
    CHECK(instance == slot + launch);
    instance = cuda::next_instance(instance);
  }
  CHECK(instance == slot);
}
