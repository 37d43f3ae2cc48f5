// SPDX-License-Identifier: Apache-2.0
#include "drawn_numbers.hpp"
#include "policy/on_jobs.hpp"
#include "sanitized.hpp"

#include <gsched/policy/detail/tail_decay.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/gamma_boost.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

using namespace gsched;
using gsched::testing::unit;
using namespace gsched::test;

namespace {

/// Gaps between arrivals, with a mean of 1: exponential, or lognormal with that sigma.
double gap(std::mt19937_64& random, double sigma) {
  if (sigma == 0) return -std::log(unit(random));
  const double normal =
      std::sqrt(-2 * std::log(unit(random))) * std::cos(2 * 3.14159265358979 * unit(random));
  return std::exp(sigma * normal - sigma * sigma / 2);
}

struct seen {
  double mean = 0, p99 = 0;
};

/// Servers that each run a job for a quantum of 100 us at a time, and jobs of four sizes. The head
/// of a job is the part of a quantum that it would take alone on the device.
template <class Make>
seen serve(Make make, double load, double sigma, std::uint64_t seed, std::size_t jobs_wanted,
           unsigned servers = 1, double alone = 1) {
  on_jobs<decltype(make())> p(typename on_jobs<decltype(make())>::template made<Make>{make});
  constexpr double us[] = {500, 900, 2400, 3000};
  constexpr double mean_us = 1700;
  constexpr duration quantum = std::chrono::microseconds{100};
  std::mt19937_64 random(seed);
  std::unique_ptr<job[]> jobs(new job[jobs_wanted]);
  client owner;
  double at = 0;
  for (std::size_t i = 0; i < jobs_wanted; ++i) {
    at += gap(random, sigma) * mean_us / load / servers;
    jobs[i].id = job_id{i};
    jobs[i].owner = &owner;
    jobs[i].arrival = time_point{} + from_us(at);
    jobs[i].total = jobs[i].remaining = from_us(us[random() % 4]);
  }
  std::size_t next = 0;
  const auto enqueue = [&](job& j, time_point now) {
    j.head = from_us(alone * to_us(std::min(quantum, j.remaining)));
    p.enqueue(j, now);
  };
  struct run {
    time_point end{};
    job* what = nullptr;
  };
  std::vector<run> running;
  std::vector<double> latencies;
  while (latencies.size() < jobs_wanted) {
    const auto first = std::min_element(running.begin(), running.end(),
                                        [](const run& a, const run& b) { return a.end < b.end; });
    time_point now{};
    if (first == running.end() || (next < jobs_wanted && jobs[next].arrival < first->end)) {
      now = jobs[next].arrival;
      enqueue(jobs[next++], now);
    } else {
      now = first->end;
      job& j = *first->what;
      running.erase(first);
      if (j.remaining > duration::zero())
        enqueue(j, now);
      else
        latencies.push_back(to_us(now - j.arrival));
    }
    while (running.size() < servers && p.size() > 0) {
      job* const j = p.try_pick(now);
      const duration ran = std::min(quantum, j->remaining);
      j->remaining -= ran;
      running.push_back({now + ran, j});
    }
  }
  latencies.erase(latencies.begin(),
                  latencies.begin() + static_cast<std::ptrdiff_t>(jobs_wanted / 10));
  std::sort(latencies.begin(), latencies.end());
  seen s;
  for (const double l : latencies) s.mean += l / static_cast<double>(latencies.size());
  s.p99 = latencies[latencies.size() * 99 / 100];
  return s;
}

} // namespace

TEST_CASE("tail_decay: the rate of an exponential tail, whatever part of the values is 0") {
  for (const double busy : {1.0, 0.7, 0.2}) {
    tail_decay d;
    CHECK(d.mean_excess() == 0);
    std::mt19937_64 random(1);
    for (int i = 0; i < 200000; ++i)
      d.learn(unit(random) < busy ? -5e6 * std::log(unit(random)) : 0.0);
    CHECK(d.mean_excess() == doctest::Approx(5e6).epsilon(0.1));
  }
}

TEST_CASE("gamma_boost: the boost falls with the size and with the factor, as the paper has it") {
  client owner;
  std::unique_ptr<job[]> jobs(new job[1000]);
  const auto boost_of = [](double f) { return [f] { return gamma_boost(f); }; };
  using made = on_jobs<gamma_boost>::made<decltype(boost_of(1))>;
  on_jobs<gamma_boost> low_jobs(made{boost_of(0.2)}), high_jobs(made{boost_of(1.0)});
  gamma_boost& low = low_jobs.policy();
  gamma_boost& high = high_jobs.policy();
  for (on_jobs<gamma_boost>* const p : {&low_jobs, &high_jobs}) {
    for (std::size_t i = 0; i < 1000; ++i) { // each except the first finds 1 ms of waiting work
      jobs[i].id = job_id{i};
      jobs[i].owner = &owner;
      jobs[i].total = jobs[i].remaining = std::chrono::milliseconds{1};
      p->enqueue(jobs[i], time_point{});
      if (i > 0) CHECK(p->try_pick(time_point{}) == &jobs[i - 1]);
    }
    CHECK(p->try_pick(time_point{}) == &jobs[999]);
  }
  // E[X^4] / 4 E[X^3] of a constant is a quarter of it; the prior weighs 64 jobs that found four
  // mean sizes.
  const double excess_ns = (1000.0 / 1064) * 0.25e6 + (64.0 / 1064) * 4e6;
  const auto formula = [&](double factor, double size_ns) {
    const double g = factor / excess_ns;
    return -std::log(-std::expm1(-g * size_ns)) / g;
  };
  duration before = duration::max();
  for (double us = 10; us < 20000; us *= 1.5) {
    const duration boost = low.boost_of(from_us(us));
    CHECK(boost <= before);
    CHECK(boost >= high.boost_of(from_us(us)));
    before = boost;
    // A class is a quarter of an octave wide, and g is kept while it changes by less than 2%.
    CHECK(static_cast<double>(boost.count()) <= 1.15 * formula(0.2, us * 1e3 * 0.87) + 1);
    CHECK(static_cast<double>(boost.count()) >= 0.85 * formula(0.2, us * 1e3 * 1.15) - 1);
  }
}

TEST_CASE("gamma_boost: jobs that wait are ordered by the present rate") {
  client owner;
  std::unique_ptr<job[]> jobs(new job[400]);
  on_jobs<gamma_boost> p;
  const auto arrive = [&](std::size_t i, double us, double at_us) {
    jobs[i].id = job_id{i};
    jobs[i].owner = &owner;
    jobs[i].arrival = time_point{} + from_us(at_us);
    jobs[i].total = jobs[i].remaining = from_us(us);
    p.enqueue(jobs[i], jobs[i].arrival);
  };
  arrive(0, 500, 0); // then a burst of others, which increases all boosts
  for (std::size_t i = 1; i < 400; ++i) arrive(i, 500, 10.0 * static_cast<double>(i));
  for (std::size_t i = 0; i < 400; ++i) CHECK(p.try_pick(time_point{}) == &jobs[i]);
}

TEST_CASE("gamma_boost: extreme sizes, arrivals and factors") {
  for (const double factor : {1e-6, 0.2, 1e6, 0.0, -1.0, std::nan("")}) {
    client owner;
    std::unique_ptr<job[]> jobs(new job[64]);
    const auto make = [factor] { return gamma_boost(factor); };
    on_jobs<gamma_boost> p(on_jobs<gamma_boost>::made<decltype(make)>{make});
    CHECK(gamma_boost::is_factor(p.policy().factor()));
    for (std::size_t i = 0; i < 64; ++i) {
      jobs[i].id = job_id{i};
      jobs[i].owner = &owner;
      jobs[i].arrival =
          i % 3 == 0 ? time_point::min() : time_point{duration{std::int64_t{1} << i % 62}};
      jobs[i].total = i % 5 == 0 ? duration::zero() : duration{std::int64_t{1} << (i * 7) % 62};
      jobs[i].remaining = duration{std::int64_t{1} << i % 50};
      p.enqueue(jobs[i], time_point{});
      CHECK(p.policy().boost_of(jobs[i].total) >= duration::zero());
      CHECK(p.policy().boost_of(jobs[i].total) <= gamma_boost::longest_boost);
    }
    std::size_t left = 64;
    while (p.try_pick(time_point{}) != nullptr) --left;
    CHECK(left == 0);
    CHECK(p.size() == 0);
  }
}

namespace {

/// Means over seeds, relative to fifo with the same seed: srpt, and boost with factors 0.2 and 1.
struct compared {
  seen shortest, both, tail;

  compared(double load, double sigma, unsigned servers, double alone) {
    constexpr int seeds = 4;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      const auto of = [&](auto make) {
        return serve(make, load, sigma, seed, 20000, servers, alone);
      };
      const seen first = of([] { return fifo(); });
      const auto add = [&](seen& to, const seen& s) {
        to.mean += s.mean / first.mean / seeds;
        to.p99 += s.p99 / first.p99 / seeds;
      };
      add(shortest, of([] { return srpt(); }));
      add(both, of([] { return gamma_boost(0.2); }));
      add(tail, of([] { return gamma_boost(1.0); }));
    }
    MESSAGE(servers, " servers, load ", load, ", sigma ", sigma, ", over fifo: srpt ",
            shortest.mean, " / ", shortest.p99, ", 0.2 ", both.mean, " / ", both.p99, ", 1 ",
            tail.mean, " / ", tail.p99);
  }
};

} // namespace

TEST_CASE("gamma_boost: between fifo's tail and srpt's mean, on one server") {
  GSCHED_TOO_LONG_SANITIZED();
  for (const double load : {0.7, 0.9}) {
    for (const double sigma : {0.0, 1.5, 2.0}) {
      const compared to_fifo(load, sigma, 1, 1);
      CHECK(to_fifo.both.mean <= 1.12 * to_fifo.shortest.mean);
      CHECK(to_fifo.both.p99 <= 1.23);
      CHECK(to_fifo.both.p99 < to_fifo.shortest.p99);
      CHECK(to_fifo.tail.p99 <= 1.02);
      CHECK(to_fifo.tail.mean <= 0.95);
    }
  }
}

// A device that runs jobs concurrently: each takes longer than alone, which the estimate of its
// size includes and the estimate of its head does not.
TEST_CASE("gamma_boost: between fifo's tail and srpt's mean, on six servers") {
  GSCHED_TOO_LONG_SANITIZED();
  for (const double sigma : {1.5, 2.0}) {
    const compared to_fifo(0.9, sigma, 6, 0.4);
    CHECK(to_fifo.both.mean <= 1.12 * to_fifo.shortest.mean);
    CHECK(to_fifo.both.p99 <= 1.25);
    CHECK(to_fifo.both.p99 < to_fifo.shortest.p99);
    CHECK(to_fifo.tail.p99 <= 1.02);
    CHECK(to_fifo.tail.mean <= 0.97);
  }
}
