// SPDX-License-Identifier: Apache-2.0
// What is particular to the policies that are one order of jobs.

#include "workload.hpp"

#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/policy/round_robin.hpp>
#include <gsched/policy/sjf.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <limits>

using namespace gsched;
using namespace gsched::test;
using namespace std::chrono_literals;

namespace {
using ids = std::vector<std::uint64_t>;
}

TEST_CASE("fifo keeps a job's place while it is served") {
  workload w(3, true);
  fifo p;
  for (std::size_t i = 0; i < 3; ++i) w[i].arrival = time_point{duration{3 - static_cast<int>(i)}};
  for (std::size_t i = 0; i < 3; ++i) p.enqueue(w[i], time_point{});
  job* first = p.try_pick(time_point{});
  CHECK(first == &w[2]);
  p.enqueue(*first, time_point{});
  CHECK(drain(p) == ids{2, 1, 0});
}

TEST_CASE("rr serves all before it serves anybody again, and who comes late waits one round") {
  workload w(4, true);
  round_robin p(50us);
  for (std::size_t i = 0; i < 3; ++i) p.enqueue(w[i], time_point{});
  ids order;
  for (int i = 0; i < 8; ++i) {
    if (i == 4) p.enqueue(w[3], time_point{});
    job* j = p.try_pick(time_point{});
    order.push_back(index(j->id));
    p.enqueue(*j, time_point{});
  }
  CHECK(order == ids{0, 1, 2, 0, 1, 2, 0, 1});
  CHECK(drain(p) == ids{2, 3, 0, 1});
  CHECK(p.slice(w[0]) == 50us);
}

TEST_CASE("rr: a stream of new jobs does not hold an old one up for more than a round") {
  workload w(200, true);
  round_robin p;
  p.enqueue(w[0], time_point{});
  std::size_t next = 1;
  for (int served = 0; served < 50;) { // two arrive for each pick
    p.enqueue(w[next++], time_point{});
    p.enqueue(w[next++], time_point{});
    const std::size_t waiting = p.size();
    std::size_t picks = 0;
    while (true) {
      job* j = p.try_pick(time_point{});
      REQUIRE(++picks <= waiting);
      if (j != &w[0]) continue; // the others are short: one slice
      p.enqueue(*j, time_point{});
      ++served;
      break;
    }
  }
}

TEST_CASE("sjf looks at the whole job, srpt at what is left of it") {
  workload w(2, true);
  w[0].total = 10us;
  w[0].remaining = 1us;
  w[1].total = 5us;
  w[1].remaining = 5us;
  sjf a;
  for (std::size_t i = 0; i < 2; ++i) a.enqueue(w[i], time_point{});
  CHECK(drain(a) == ids{1, 0});
  srpt b;
  for (std::size_t i = 0; i < 2; ++i) b.enqueue(w[i], time_point{});
  CHECK(drain(b) == ids{0, 1});
}

TEST_CASE("preemption is strict: equals do not swap") {
  workload w(2, true);
  for (std::size_t i = 0; i < 2; ++i) {
    w[i].remaining = 5us;
    w[i].deadline = time_point{9us};
  }
  srpt a;
  a.enqueue(w[0], time_point{});
  CHECK_FALSE(a.wants_preempt(w[1], time_point{}));
  w[1].remaining = 6us;
  CHECK(a.wants_preempt(w[1], time_point{}));
  a.erase(w[0]);
  edf b;
  b.enqueue(w[0], time_point{});
  CHECK_FALSE(b.wants_preempt(w[1], time_point{}));
  w[1].deadline = time_point{10us};
  CHECK(b.wants_preempt(w[1], time_point{}));
}

TEST_CASE("edf admits up to the nanosecond, counting the work due before") {
  workload w(4, true);
  for (std::size_t i = 0; i < 4; ++i) w[i].remaining = 10us;
  w[0].deadline = time_point{50us};
  w[1].deadline = time_point{60us};
  w[2].deadline = time_point{60us + 1ns}; // after the one that asks
  job& asking = w[3];
  asking.deadline = time_point{60us};
  edf p;
  CHECK(p.admits(asking, time_point{50us}));
  CHECK_FALSE(p.admits(asking, time_point{50us + 1ns}));
  for (std::size_t i = 0; i < 3; ++i) p.enqueue(w[i], time_point{});
  CHECK(p.admits(asking, time_point{30us}));
  CHECK_FALSE(p.admits(asking, time_point{30us + 1ns}));
  p.set_busy_until(time_point{29us});
  CHECK(p.admits(asking, time_point{0us}));
  p.set_busy_until(time_point{31us});
  CHECK_FALSE(p.admits(asking, time_point{0us}));
  p.erase(w[0]);
  CHECK(p.admits(asking, time_point{0us}));
  asking.deadline = no_deadline;
  CHECK(p.admits(asking, time_point::max()));
}

TEST_CASE("edf: overlap divides the work of others, not one's own") {
  workload w(2, true);
  for (std::size_t i = 0; i < 2; ++i) {
    w[i].remaining = 10us;
    w[i].deadline = time_point{20us};
  }
  edf twice(2.0), alone(std::numeric_limits<double>::infinity());
  twice.enqueue(w[0], time_point{});
  CHECK(twice.admits(w[1], time_point{5us}));
  CHECK_FALSE(twice.admits(w[1], time_point{5us + 1ns}));
  twice.erase(w[0]);
  alone.enqueue(w[0], time_point{});
  CHECK(alone.admits(w[1], time_point{10us}));
  CHECK_FALSE(alone.admits(w[1], time_point{10us + 1ns}));
}

TEST_CASE("priority: real-time jobs go first and preempt, and admission is by class") {
  workload w(4, true);
  w[1].service = w[3].service = service_class::real_time;
  w[0].remaining = 1us;
  w[2].remaining = 2us;
  w[1].deadline = time_point{9us};
  w[1].remaining = 10us;
  w[3].deadline = time_point{8us};
  gsched::priority<edf, srpt> p;
  CHECK_FALSE(p.admits(w[1], time_point{}));
  CHECK(p.admits(w[0], time_point{}));
  p.enqueue(w[2], time_point{});
  CHECK(p.wants_preempt(w[0], time_point{}) == false);
  p.enqueue(w[1], time_point{});
  CHECK(p.wants_preempt(w[0], time_point{}));
  CHECK_FALSE(p.wants_preempt(w[3], time_point{}));
  p.enqueue(w[0], time_point{});
  p.enqueue(w[3], time_point{});
  CHECK(p.size() == 4);
  CHECK(drain(p) == ids{3, 1, 0, 2});
  p.set_busy_until(time_point{5us});
  w[3].remaining = 2us;
  CHECK(p.admits(w[3], time_point{}));
  p.set_busy_until(time_point{7us});
  CHECK_FALSE(p.admits(w[3], time_point{}));
}
