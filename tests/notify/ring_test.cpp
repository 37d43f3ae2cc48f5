// SPDX-License-Identifier: Apache-2.0
#include <gsched/notify/ring.hpp>

#include <gsched/core/error.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/notify/flow_control.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

using namespace gsched;

namespace {

notification word(std::uint32_t instance) {
  return {notification_type::blocks_started, 1, static_cast<std::uint16_t>(instance % 132),
          instance};
}

/// The words of a writer are numbered, to detect loss, repetition and wrong order.
constexpr std::uint32_t seq_bits = 24;
std::uint32_t numbered(std::size_t writer, std::uint32_t seq) {
  return static_cast<std::uint32_t>(writer) << seq_bits | seq;
}

} // namespace

TEST_CASE("words come out once each, in the order of their tickets, over many laps") {
  host_ring ring(8);
  ring_writer writer = ring.writer();
  std::uint32_t written = 0;
  std::uint32_t read = 0;
  const std::uint32_t laps = 3 * (word_layout::lap_mask + 1); // the lap number wraps
  while (written < 8 * laps) {
    for (std::uint32_t n = written % 7 + 1; n > 0; --n) writer.push(word(written++));
    bool in_order = true;
    ring.reader().drain(
        [&](const notification& n) { in_order = n.instance == read++ && in_order; });
    REQUIRE(in_order);
    REQUIRE(read == written);
  }
  CHECK(ring.reader().counts().intact());
  CHECK(ring.reader().counts().read == ring.was_claimed());
}

TEST_CASE("an empty ring gives nothing, and drain takes at most what it is told") {
  host_ring ring(4);
  const auto none = [](const notification&) { FAIL_CHECK("nothing was written"); };
  CHECK(ring.reader().drain(none) == 0);
  CHECK_FALSE(ring.reader().try_next(none));
  for (std::uint32_t i = 0; i < 4; ++i) ring.writer().push(word(i));
  std::uint32_t read = 0;
  const auto count = [&](const notification&) { ++read; };
  CHECK(ring.reader().drain(count, 3) == 3);
  CHECK(ring.reader().drain(count, 3) == 1);
  CHECK(ring.reader().drain(count, 3) == 0);
  CHECK(read == 4);
}

TEST_CASE("a capacity that is no power of two from 2 on is refused") {
  for (const std::size_t slots : {0u, 1u, 3u, 12u, 1000u}) CHECK_THROWS_AS(host_ring{slots}, error);
  for (const std::size_t slots : {2u, 4u, 1024u}) CHECK_NOTHROW(host_ring{slots});
}

TEST_CASE("a word that is no notification is counted, and does not stop the ring") {
  host_ring ring(4);
  ring_writer writer = ring.writer();
  writer.publish(writer.claim(), 0); // its lap alone
  writer.publish(writer.claim(), ~std::uint64_t{0});
  writer.push(word(5));
  CHECK(ring.reader().drain([](const notification& n) { CHECK(n.instance == 5); }) == 1);
  CHECK(ring.reader().counts() == ring_counts{.read = 1, .invalid = 2});
}

TEST_CASE("a gap holds the reader up, and is lost once the writers have finished") {
  host_ring ring(4);
  ring_writer writer = ring.writer();
  const std::uint64_t gap = writer.claim();
  writer.push(word(1));
  const auto second = [](const notification& n) { CHECK(n.instance == 1); };
  CHECK(ring.reader().drain(second) == 0);
  SUBCASE("it is filled after all") {
    writer.publish(gap, pack(word(0)));
    std::uint32_t read = 0;
    CHECK(ring.reader().drain([&](const notification& n) { CHECK(n.instance == read++); }) == 2);
    CHECK(ring.reader().counts().intact());
  }
  SUBCASE("it is not") {
    ring.reader().finalise(ring.was_claimed(), second);
    CHECK(ring.reader().counts() == ring_counts{.read = 1, .lost = 1});
    writer.push(word(1)); // and the ring goes on
    CHECK(ring.reader().drain(second) == 1);
  }
}

TEST_CASE("without flow control what is overwritten is counted, word by word") {
  host_ring ring(4);
  ring_writer writer = ring.writer();
  for (std::uint32_t i = 0; i < 6; ++i) writer.push(word(i));
  std::vector<std::uint32_t> read;
  ring.reader().drain([&](const notification& n) { read.push_back(n.instance); });
  CHECK(read == std::vector<std::uint32_t>{2, 3, 4, 5});
  CHECK(ring.reader().counts() == ring_counts{.read = 4, .overwritten = 2});
}

TEST_CASE("a reader left behind by many laps catches up at once, and counts what it passed") {
  host_ring ring(4);
  ring_writer writer = ring.writer();
  for (std::uint32_t i = 0; i < 4001; ++i) writer.push(word(i));
  std::vector<std::uint32_t> read;
  const auto keep = [&](const notification& n) { read.push_back(n.instance); };
  CHECK(ring.reader().try_next(keep));
  CHECK(ring.reader().counts().overwritten == 3997);
  ring.reader().drain(keep);
  CHECK(read == std::vector<std::uint32_t>{3997, 3998, 3999, 4000});
  CHECK(ring.reader().counts().tickets() == ring.was_claimed());
}

TEST_CASE("whatever lies in the slots, a drain ends, and finalise does") {
  // Each slot is a third of all laps ahead of the one before: without a limit the reader would skip
  // them for ever.
  std::array<std::uint64_t, 4> slots{};
  ring_reader reader(slots);
  const auto none = [](const notification&) { FAIL_CHECK("none of them is a notification"); };
  for (std::size_t i = 0; i < slots.size(); ++i)
    slots[i] = with_lap(~std::uint64_t{0}, 2 + i % 3 * (word_layout::lap_mask / 3));
  CHECK(reader.drain(none) == 0);
  CHECK(reader.counts().overwritten > 0);
  reader.finalise(1'000'000, none);
  CHECK(reader.counts().tickets() >= 1'000'000);
}

TEST_CASE("a writer that is late by a lap costs the word it writes over; both are counted") {
  host_ring ring(2);
  ring_writer writer = ring.writer();
  const std::uint64_t late = writer.claim();
  writer.push(word(1));
  writer.push(word(2)); // takes the late writer's slot
  std::vector<std::uint32_t> read;
  const auto keep = [&](const notification& n) { read.push_back(n.instance); };
  CHECK(ring.reader().try_next(keep)); // the late word is given up
  writer.publish(late, pack(word(0))); // over the word 2
  ring.reader().drain(keep);
  ring.reader().finalise(ring.was_claimed(), keep);
  CHECK(read == std::vector<std::uint32_t>{1});
  CHECK(ring.reader().counts() == ring_counts{.read = 1, .overwritten = 1, .lost = 1});
}

TEST_CASE("many writers under flow control: nothing lost, nothing twice, and what a writer wrote "
          "before is seen") {
  constexpr std::size_t writers = 4;
  constexpr std::uint32_t each = 20'000;
  constexpr std::uint32_t batch = 16;
  static_assert(each % batch == 0);
  host_ring ring(128);
  flow_control flow(128);
  std::array<std::vector<std::uint32_t>, writers> payload; // no atomics: the ring orders it
  for (auto& p : payload) p.assign(each, 0);
  std::array<sync::atomic<std::uint32_t>, writers> launched{};

  std::vector<std::thread> threads;
  for (std::size_t w = 0; w < writers; ++w)
    threads.emplace_back([&, w, writer = ring.writer()]() mutable {
      for (std::uint32_t i = 0; i < each; ++i) {
        // [T1] acquire <- [T1] release below: a launch
        while (launched[w].load(sync::acquire) <= i) std::this_thread::yield();
        payload[w][i] = numbered(w, i) * 3;
        writer.push(word(numbered(w, i)));
      }
    });

  std::array<std::uint32_t, writers> next{};
  std::array<std::uint32_t, writers> given{};
  bool in_order = true;
  bool published = true;
  const auto check = [&](const notification& n) {
    const std::size_t w = n.instance >> seq_bits;
    const std::uint32_t seq = n.instance & ((1u << seq_bits) - 1);
    in_order = in_order && w < writers && seq == next[w];
    if (!in_order) return;
    published = published && payload[w][seq] == n.instance * 3;
    ++next[w];
  };
  std::uint64_t total = 0;
  while (total < writers * each && in_order) {
    for (std::size_t w = 0; w < writers; ++w)
      if (given[w] < each && flow.try_reserve(batch)) {
        given[w] += batch;
        launched[w].store(given[w], sync::release); // [T1] release -> [T1] acquire above
      }
    const std::size_t n = ring.reader().drain(check);
    flow.release(n);
    total += n;
    if (n == 0) std::this_thread::yield();
  }
  for (auto& l : launched) l.store(each, sync::release); // lets a failed run end
  for (std::thread& t : threads) t.join();
  CHECK(in_order);
  CHECK(published);
  CHECK(ring.reader().counts() == ring_counts{.read = writers * each});
  CHECK(flow.reserved() == 0);
  CHECK(flow.total() == ring.was_claimed());
}

TEST_CASE("many writers without flow control: every ticket is read once or counted once") {
  constexpr std::size_t writers = 4;
  constexpr std::uint32_t each = 50'000;
  host_ring ring(64); // 3125 laps in all
  sync::atomic<std::size_t> running{writers};
  std::vector<std::thread> threads;
  for (std::size_t w = 0; w < writers; ++w)
    threads.emplace_back([&, w, writer = ring.writer()]() mutable {
      for (std::uint32_t i = 0; i < each; ++i) writer.push(word(numbered(w, i)));
      running.fetch_sub(1, sync::release); // [T2] release -> [T2] acquire: the last push
    });
  std::vector<std::uint8_t> seen(writers << seq_bits, 0);
  bool twice = false;
  const auto mark = [&](const notification& n) { twice = seen[n.instance]++ != 0 || twice; };
  while (running.load(sync::acquire) > 0) // [T2] acquire <- [T2] release
    if (ring.reader().drain(mark) == 0) std::this_thread::yield();
  for (std::thread& t : threads) t.join();
  ring.reader().finalise(ring.was_claimed(), mark);
  CHECK_FALSE(twice);
  CHECK(ring.was_claimed() == writers * each);
  const ring_counts& c = ring.reader().counts();
  CHECK(c.tickets() == writers * each);
  CHECK(c.overwritten > 0); // the reader cannot keep up with 64 slots
  CHECK(c.invalid == 0);
}
