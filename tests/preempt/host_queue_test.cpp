// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"

#include <gsched/preempt/host_queue.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <vector>

using namespace gsched;

namespace {

/// Counts those that live.
struct counted {
  explicit counted(sync::atomic<int>& n, int v) : count(&n), value(v) { ++*count; }
  counted(counted&& o) noexcept : count(o.count), value(o.value) { ++*count; }
  ~counted() { --*count; }
  sync::atomic<int>* count;
  int value;
};

} // namespace

TEST_CASE("host_queue: in order, and no more ahead of the device than the bound") {
  host_queue<int> q(100, from_us(100));
  for (int i = 0; i < 10; ++i) CHECK(q.try_push(i, from_us(40)));
  std::vector<int> out;
  const auto keep = [&](int i) { out.push_back(i); };
  while (q.try_pop(keep)) {
  }
  CHECK(out == std::vector<int>{0, 1});
  CHECK(q.queued() == from_us(80));
  q.ended(from_us(40));
  CHECK(q.try_pop(keep));
  CHECK_FALSE(q.try_pop(keep));
  CHECK(out == std::vector<int>{0, 1, 2});
  q.ended(from_us(40));
  q.ended(from_us(40));
  q.set_bound(from_us(10)); // less than one: one at a time
  CHECK(q.try_pop(keep));
  CHECK_FALSE(q.try_pop(keep));
  CHECK(q.size() == 6);
}

TEST_CASE("host_queue: declines beyond its capacity, and after a reset takes as much again") {
  host_queue<int> q(3, from_us(1));
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 3; ++i) CHECK(q.try_push(i));
    CHECK_FALSE(q.try_push(3));
    CHECK(q.reset() == 3);
    CHECK(q.reset() == 0);
    CHECK(q.size() == 0);
    CHECK(q.was_dropped());
    if (round == 2) CHECK(q.collect() == 9);
  }
  CHECK(q.collect() == 3);
  CHECK_FALSE(q.was_dropped());
}

TEST_CASE("host_queue: a reset destroys nothing, collecting does, and the end of the queue too") {
  sync::atomic<int> alive{0};
  {
    host_queue<counted> q(100, from_us(1));
    for (int i = 0; i < 70; ++i) CHECK(q.try_push(counted(alive, i)));
    CHECK(q.reset() == 70);
    CHECK(alive == 70);
    for (int i = 0; i < 5; ++i) CHECK(q.try_push(counted(alive, i)));
    CHECK(q.collect() == 70);
    CHECK(alive == 5);
    CHECK(q.try_pop([](const counted& c) { CHECK(c.value == 0); }));
    CHECK(alive == 4);
    CHECK(q.reset() == 4);
  }
  CHECK(alive == 0);
}

TEST_CASE("host_queue: no allocation once warmed") {
  host_queue<int> q(200, from_us(1e6));
  const auto round = [&] {
    for (int i = 0; i < 200; ++i) static_cast<void>(q.try_push(i));
    for (int i = 0; i < 50; ++i) {
      static_cast<void>(q.try_pop([](int) {}));
      q.ended({});
    }
    static_cast<void>(q.reset());
    static_cast<void>(q.collect());
  };
  round();
  const std::size_t before = gsched::testing::allocations();
  for (int i = 0; i < 100; ++i) round();
  CHECK(gsched::testing::allocations() == before);
}

TEST_CASE("host_queue: a thread that collects sees each item once") {
  sync::atomic<int> alive{0};
  host_queue<counted> q(64, from_us(1e6));
  int pushed = 0;
  int popped = 0;
  std::size_t dropped = 0;
  {
    background_collector<counted> collector(q);
    std::mt19937_64 random(3);
    for (int i = 0; i < 200000; ++i) {
      if (random() % 2)
        pushed += q.try_push(counted(alive, pushed));
      else if (random() % 4)
        popped += q.try_pop([&](const counted&) { q.ended({}); });
      else if (random() % 8 == 0) {
        dropped += q.reset();
        collector.wake();
      }
    }
  }
  dropped += q.reset();
  static_cast<void>(q.collect());
  CHECK(pushed == popped + static_cast<int>(dropped));
  CHECK(dropped > 1000);
  CHECK(alive == 0);
}
