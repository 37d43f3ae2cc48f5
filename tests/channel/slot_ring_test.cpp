// SPDX-License-Identifier: Apache-2.0
#include <gsched/channel/detail/arena_blocks.hpp>
#include <gsched/channel/detail/range_set.hpp>
#include <gsched/channel/layout.hpp>
#include <gsched/channel/limits.hpp>
#include <gsched/channel/slot_ring.hpp>

#include <gsched/core/error.hpp>
#include <gsched/workload/random.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

using namespace gsched;
using namespace gsched::channel;

TEST_CASE("slot ring: what is written is read once, in order, lap after lap") {
  for (const std::uint32_t slots : {2u, 4u, 8u}) {
    std::vector<request_slot> memory(slots);
    slot_writer<request_slot> writer(memory.data(), slots);
    slot_reader<request_slot> reader(memory.data(), slots);
    request_slot out;
    CHECK(!reader.try_read(out));
    std::uint64_t written = 0, read = 0;
    random_engine random(slots);
    while (read < 1000) {
      if (written - read < slots && draw_uniform(random) < 0.5) {
        request_slot r;
        r.id = written++;
        r.turn = 77; // ignored
        writer.write(r);
        CHECK(reader.was_written());
      } else if (reader.try_read(out)) {
        CHECK(out.id == read++);
      } else {
        CHECK(written == read);
      }
    }
  }
}

TEST_CASE("slot ring: a message is whole when another thread reads it") {
  constexpr std::uint32_t slots = 4;
  std::vector<request_slot> requests(slots);
  std::vector<reply_slot> replies(slots);
  constexpr std::uint64_t all = 20000;
  std::thread server([&] {
    slot_reader<request_slot> reader(requests.data(), slots);
    slot_writer<reply_slot> writer(replies.data(), slots);
    for (std::uint64_t n = 0; n < all;) {
      request_slot r;
      if (!reader.try_read(r)) {
        std::this_thread::yield();
        continue;
      }
      reply_slot out;
      out.id = r.id;
      out.latency_ns = static_cast<std::int64_t>(r.payload.offset ^ r.payload.bytes);
      writer.write(out);
      ++n;
    }
  });
  slot_writer<request_slot> writer(requests.data(), slots);
  slot_reader<reply_slot> reader(replies.data(), slots);
  bool right = true;
  while (reader.read() < all) {
    if (writer.written() < all && writer.written() - reader.read() < slots) {
      request_slot r;
      r.id = writer.written();
      r.payload = {3 * r.id, 5 * r.id};
      writer.write(r);
    }
    const std::uint64_t n = reader.read();
    reply_slot got;
    if (reader.try_read(got))
      right =
          right && got.id == n && got.latency_ns == static_cast<std::int64_t>((3 * n) ^ (5 * n));
    else
      std::this_thread::yield();
  }
  server.join();
  CHECK(right);
}

/// The protocol of going to sleep, in every interleaving of its steps: the writer writes, then
/// looks whether the reader sleeps; the reader says that it sleeps, then looks for a message.
TEST_CASE("slot ring: in every interleaving a reader that sleeps is woken") {
  int lost = 0, orders = 0;
  for (unsigned order = 0; order < 16; ++order) { // bit n: whose step the n-th is
    if (__builtin_popcount(order) != 2) continue;
    ++orders;
    std::vector<request_slot> memory(2);
    slot_writer<request_slot> writer(memory.data(), 2);
    slot_reader<request_slot> reader(memory.data(), 2);
    bool asleep = false, woken = false, found = false;
    int writer_step = 0, reader_step = 0;
    for (unsigned n = 0; n < 4; ++n) {
      if ((order >> n & 1) != 0) {
        if (writer_step++ == 0)
          writer.write({});
        else
          woken = asleep;
      } else if (reader_step++ == 0) {
        asleep = true;
      } else {
        found = reader.was_written();
      }
    }
    if (!woken && !found) ++lost;
  }
  CHECK(orders == 6);
  CHECK(lost == 0);
}

TEST_CASE("layout: parts follow each other, and numbers out of range are refused") {
  for (const std::uint32_t slots : {2u, 64u, 65536u})
    for (const std::uint64_t arena : {std::uint64_t{64}, std::uint64_t{1} << 20}) {
      const layout l = layout::of(slots, arena);
      CHECK(l.cancels_at() >= l.client_words_at() + sizeof(client_words));
      CHECK(l.requests_at() >= l.cancels_at() + slots * sizeof(std::uint32_t));
      CHECK(l.replies_at() >= l.requests_at() + slots * sizeof(request_slot));
      CHECK(l.texts_at() >= l.replies_at() + slots * sizeof(reply_slot));
      CHECK(l.arena_at() >= l.texts_at() + slots * layout::text_bytes);
      CHECK(l.arena_at() % layout::page == 0);
      CHECK(l.total_bytes() >= l.arena_at() + arena);
    }
  for (const auto& [slots, arena] : std::vector<std::pair<std::uint32_t, std::uint64_t>>{
           {0, 64}, {1, 64}, {3, 64}, {1u << 17, 64}, {2, 0}, {2, 65}, {2, ~std::uint64_t{63}}})
    CHECK_THROWS_AS(static_cast<void>(layout::of(slots, arena)), error);
}

TEST_CASE("payload_range set: as a set of bytes") {
  random_engine random(1);
  channel::detail::range_set set(64);
  std::vector<payload_range> in;
  std::set<std::uint64_t> bytes;
  for (int n = 0; n < 20000; ++n) {
    if (!in.empty() && (in.size() == 64 || draw_uniform(random) < 0.5)) {
      const auto at = static_cast<std::size_t>(draw_uniform(random) * double(in.size() - 1));
      set.erase(in[at]);
      for (std::uint64_t b = 0; b < in[at].bytes; ++b) bytes.erase(in[at].offset + b);
      in.erase(in.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    const payload_range e{static_cast<std::uint64_t>(draw_uniform(random) * 300),
                          static_cast<std::uint64_t>(draw_uniform(random) * 12)};
    bool free = true;
    for (std::uint64_t b = 0; b < e.bytes; ++b) free = free && !bytes.contains(e.offset + b);
    REQUIRE(set.try_insert(e) == free);
    if (!free || e.bytes == 0) continue;
    in.push_back(e);
    for (std::uint64_t b = 0; b < e.bytes; ++b) bytes.insert(e.offset + b);
  }
  CHECK(set.size() == in.size());
}

TEST_CASE("arena blocks: pieces never overlap, and all of the arena comes back") {
  random_engine random(2);
  channel::detail::arena_blocks blocks(4096);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  for (int n = 0; n < 5000; ++n) {
    if (!taken.empty() && draw_uniform(random) < 0.5) {
      const auto at = static_cast<std::size_t>(draw_uniform(random) * double(taken.size() - 1));
      blocks.give_back(taken[at].first);
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      const auto bytes = static_cast<std::uint64_t>(draw_uniform(random) * 700);
      const std::optional<std::uint64_t> at = blocks.try_take(bytes);
      if (!at) continue;
      REQUIRE(*at % 64 == 0);
      REQUIRE(*at + bytes <= 4096);
      for (const auto& [offset, size] : taken)
        REQUIRE((offset + size <= *at || *at + bytes <= offset));
      taken.emplace_back(*at, bytes);
    }
  }
  for (const auto& piece : taken) blocks.give_back(piece.first);
  blocks.give_back(12345); // was not taken
  CHECK(blocks.try_take(4096) == 0);
  CHECK(!blocks.try_take(1));
  CHECK(!blocks.try_take(~std::uint64_t{0}));
}

TEST_CASE("rate limit: a burst at once, and the rate in the long run") {
  channel::detail::rate_limit limit(1000, 4);
  int taken = 0;
  for (int n = 0; n < 10; ++n) taken += limit.try_take(1);
  CHECK(taken == 4);
  taken = 0;
  for (std::int64_t us = 0; us < 1'000'000; us += 100) taken += limit.try_take(1 + us * 1000);
  CHECK(taken >= 999);
  CHECK(taken <= 1004);
  channel::detail::rate_limit none(0, 1);
  for (int n = 0; n < 1000; ++n) REQUIRE(none.try_take(0));
}
