// SPDX-License-Identifier: Apache-2.0
// Properties of the policies that are one order of jobs.

#include "on_jobs.hpp"
#include "workload.hpp"

#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/policy/round_robin.hpp>
#include <gsched/policy/sjf.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

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
  on_jobs<fifo> p(w);
  for (std::size_t i = 0; i < 3; ++i) w[i].arrival = time_point{duration{3 - static_cast<int>(i)}};
  for (std::size_t i = 0; i < 3; ++i) p.enqueue(w[i], time_point{});
  job* first = p.try_pick(time_point{});
  CHECK(first == &w[2]);
  p.enqueue(*first, time_point{});
  CHECK(drain(p) == ids{2, 1, 0});
}

TEST_CASE("rr serves all before it serves anybody again, and who comes late waits one round") {
  workload w(4, true);
  on_jobs<round_robin> p(w, 50us);
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
  on_jobs<round_robin> p(w);
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
  on_jobs<sjf> a(w);
  for (std::size_t i = 0; i < 2; ++i) a.enqueue(w[i], time_point{});
  CHECK(drain(a) == ids{1, 0});
  on_jobs<srpt> b(w);
  for (std::size_t i = 0; i < 2; ++i) b.enqueue(w[i], time_point{});
  CHECK(drain(b) == ids{0, 1});
}

TEST_CASE("preemption is strict: equals do not swap") {
  workload w(2, true);
  for (std::size_t i = 0; i < 2; ++i) {
    w[i].remaining = 5us;
    w[i].deadline = time_point{9us};
  }
  on_jobs<srpt> a(w);
  a.enqueue(w[0], time_point{});
  CHECK_FALSE(a.wants_preempt(w[1], time_point{}));
  w[1].remaining = 6us;
  CHECK(a.wants_preempt(w[1], time_point{}));
  a.erase(w[0]);
  on_jobs<edf> b(w);
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
  on_jobs<edf> p(w);
  CHECK(p.admits(asking, time_point{50us}));
  CHECK_FALSE(p.admits(asking, time_point{50us + 1ns}));
  for (std::size_t i = 0; i < 3; ++i) p.enqueue(w[i], time_point{});
  CHECK(p.admits(asking, time_point{30us}));
  CHECK_FALSE(p.admits(asking, time_point{30us + 1ns}));
  p.erase(w[0]);
  CHECK(p.admits(asking, time_point{40us}));
  CHECK_FALSE(p.admits(asking, time_point{40us + 1ns}));
  asking.deadline = no_deadline;
  CHECK(p.admits(asking, time_point::max()));
}

TEST_CASE("edf: overlap divides the work of others, not one's own") {
  workload w(2, true);
  for (std::size_t i = 0; i < 2; ++i) {
    w[i].remaining = 10us;
    w[i].deadline = time_point{20us};
  }
  on_jobs<edf> twice(w, 2.0), alone(w, std::numeric_limits<double>::infinity());
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
  on_jobs<gsched::priority<edf, srpt>> p(w);
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
  w[3].remaining = 2us;
  CHECK(p.admits(w[3], time_point{}));
  w[1].deadline = time_point{8us};
  w[1].remaining = 7us;
  p.entered(w[1], time_point{}); // of the same class
  CHECK_FALSE(p.admits(w[3], time_point{}));
  p.left(w[1], true, time_point{});
  w[0].deadline = time_point{8us};
  w[0].remaining = 7us;
  p.entered(w[0], time_point{}); // of the other one, which counts no work
  CHECK(p.admits(w[3], time_point{}));
  p.left(w[0], true, time_point{});
}

TEST_CASE("F1: a job that has entered counts until it leaves, wherever it waits") {
  workload w(3, true);
  for (std::size_t i = 0; i < 3; ++i) {
    w[i].remaining = 10us;
    w[i].deadline = time_point{20us};
  }
  on_jobs<edf> p(w);
  const auto latest_start = [&](job& j) {
    for (duration t = 30us; t >= -1us; t -= 1us)
      if (p.admits(j, time_point{t})) return t;
    return duration{-1};
  };
  CHECK(latest_start(w[2]) == 10us);
  p.entered(w[0], time_point{}); // waits for an instance
  CHECK(latest_start(w[2]) == 0us);
  p.enqueue(w[0], time_point{});
  CHECK(latest_start(w[2]) == 0us); // once, not twice
  CHECK(p.try_pick(time_point{}) == &w[0]);
  p.submitted(w[0], 4us, time_point{});
  w[0].remaining = 6us;
  CHECK(latest_start(w[2]) == 0us);
  p.landed(w[0], 4us, true, time_point{4us});
  CHECK(latest_start(w[2]) == 4us);
  p.enqueue(w[0], time_point{4us});
  CHECK(p.try_pick(time_point{4us}) == &w[0]);
  p.submitted(w[0], 6us, time_point{4us});
  w[0].remaining = 0us;
  p.landed(w[0], 6us, false, time_point{5us}); // taken back
  CHECK(latest_start(w[2]) == 4us);
  p.left(w[0], false, time_point{5us});
  CHECK(latest_start(w[2]) == 10us);
}

TEST_CASE(
    "edf admits no job that would make an admitted one late, and counts what is on the device") {
  workload w(3, true);
  for (std::size_t i = 0; i < 3; ++i) w[i].remaining = 10us;
  w[0].deadline = time_point{30us};
  w[1].deadline = time_point{20us};
  on_jobs<edf> p(w);
  p.entered(w[0], time_point{});
  CHECK(p.admits(w[1], time_point{10us}));
  CHECK_FALSE(p.admits(w[1], time_point{10us + 1ns})); // w[1] would end in time, w[0] not
  w[0].deadline = no_deadline;
  p.left(w[0], false, time_point{});
  p.entered(w[0], time_point{});
  CHECK(p.admits(w[1], time_point{10us}));
  CHECK_FALSE(p.admits(w[1], time_point{10us + 1ns}));
  p.submitted(w[0], 3us, time_point{}); // goes on although its deadline is later
  CHECK(p.admits(w[1], time_point{7us}));
  CHECK_FALSE(p.admits(w[1], time_point{7us + 1ns}));
  p.landed(w[0], 3us, true, time_point{});
  p.left(w[0], true, time_point{});
}

TEST_CASE("edf's sums of work agree with a plain list, whatever comes and goes") {
  std::mt19937_64 random(7);
  workload w(40, true);
  std::vector<bool> in(w.size(), false);
  on_jobs<edf> p(w);
  for (int step = 0; step < 4000; ++step) {
    const std::size_t i = random() % (w.size() - 1);
    if (in[i] && random() % 3 > 0) {
      if (random() % 2 == 0) {
        const duration part{static_cast<std::int64_t>(random() % 5)};
        p.submitted(w[i], part, time_point{});
        w[i].remaining -= std::min(w[i].remaining, part);
        p.landed(w[i], part, true, time_point{});
        p.enqueue(w[i], time_point{});
        p.erase(w[i]);
      } else {
        p.left(w[i], false, time_point{});
        in[i] = false;
      }
    } else if (!in[i]) {
      w[i].deadline = time_point{duration{static_cast<std::int64_t>(1000 + random() % 3000)}};
      w[i].remaining = duration{static_cast<std::int64_t>(random() % 60)};
      p.entered(w[i], time_point{});
      in[i] = true;
    }
    job& asking = w[w.size() - 1];
    asking.deadline = time_point{duration{static_cast<std::int64_t>(1000 + random() % 3000)}};
    asking.remaining = duration{static_cast<std::int64_t>(random() % 60)};
    const time_point now{duration{static_cast<std::int64_t>(random() % 3000)}};
    bool fits = true;
    for (std::size_t k = 0; k < w.size(); ++k) {
      const bool counts = k + 1 == w.size() || (in[k] && w[k].deadline > asking.deadline);
      if (!counts) continue;
      time_point end = now + w[k].remaining;
      for (std::size_t l = 0; l < w.size(); ++l) {
        if (l == k) continue;
        const bool ahead =
            l + 1 == w.size() ||
            (in[l] && (std::pair(w[l].deadline, w[l].id) < std::pair(w[k].deadline, w[k].id) ||
                       (k + 1 == w.size() && w[l].deadline == w[k].deadline)));
        if (ahead) end += w[l].remaining;
      }
      if (end > w[k].deadline) fits = false;
    }
    REQUIRE(p.admits(asking, now) == fits);
  }
}
