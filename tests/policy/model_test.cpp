// SPDX-License-Identifier: Apache-2.0
// Random sequences of calls, compared with models that examine everything each time.

#include "naive.hpp"
#include "on_jobs.hpp"
#include "workload.hpp"

#include <gsched/policy/names.hpp>
#include <gsched/policy/priority.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <utility>

using namespace gsched;
using namespace gsched::test;

namespace {

constexpr std::array<double, 6> weights{1.0, 1.0, 3.0, 0.25, 1e-5, 1000.0};

/// The same calls to p and to its model; the first difference fails.
template <class P, class Model, class... Arguments>
void compare(std::uint64_t seed, Model model, bool equal_weights, Arguments... arguments) {
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  workload w(48, true, 1 + seed % 9);
  on_jobs<P> p(w, arguments...);
  for (std::size_t i = 0; i < w.clients(); ++i)
    w.owner(i).weight = equal_weights ? 1.0 : weights[(i + seed) % weights.size()];
  std::vector<bool> is_in(w.size(), false);
  time_point now{};
  const auto leave = [&](job* j) { is_in[index(j->id)] = false; };
  for (int step = 0; step < 1500; ++step) {
    now += duration{static_cast<std::int64_t>(random() % 3)};
    job& j = w[random() % w.size()];
    const bool in = is_in[index(j.id)];
    const auto what = random() % 16;
    if (!in && what < 10) {
      draw_facts(j, random, now);
      if constexpr (admitting_policy<P>) REQUIRE(p.admits(j, now) == model.admits(j, now));
      REQUIRE(p.wants_preempt(j, now) == model.wants_preempt(j, now));
      p.enqueue(j, now);
      model.enqueue(j, now);
      is_in[index(j.id)] = true;
    } else if (in && what == 0) {
      p.erase(j);
      model.erase(j);
      leave(&j);
    } else if (what > 7) {
      job* const expected = model.try_pick(now);
      job* const picked = p.try_pick(now);
      REQUIRE(picked == expected);
      if (picked == nullptr) continue;
      leave(picked);
      if (random() % 3 == 0) continue; // otherwise it returns at once
      picked->remaining -= std::min(picked->remaining, picked->head);
      p.enqueue(*picked, now);
      model.enqueue(*picked, now);
      is_in[index(picked->id)] = true;
    }
    REQUIRE(p.size() == model.size());
  }
  while (job* expected = model.try_pick(now)) REQUIRE(p.try_pick(now) == expected);
  REQUIRE(p.try_pick(now) == nullptr);
}

template <class P, class Model>
void compare_many() {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    compare<P>(seed, Model{}, seed % 2 == 0);
  }
}

constexpr std::array<duration, 7> thresholds{duration{0},       duration{1},
                                             duration{40},      duration{900},
                                             duration{1 << 20}, deficit_ledger::longest,
                                             run_to_completion};

template <class P, class Base>
void compare_thresholds() {
  for (const duration t : thresholds)
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      CAPTURE(t.count());
      naive_deficit<Base> model;
      model.threshold = t;
      compare<P>(seed, model, seed % 2 == 0, t);
    }
}

struct edf_before_fair : gsched::priority<edf, deficit_over<srpt>> {
  explicit edf_before_fair(duration threshold = {}) noexcept { second().set_threshold(threshold); }
};

struct naive_own_edf : naive_edf { // fairness can precede deadlines, so only its own work counts
  bool admits(const job& j, time_point now) const { return naive_edf{}.admits(j, now); }
};

} // namespace

TEST_CASE("simple policies decide as their models") {
  SUBCASE("fifo") { compare_many<fifo, naive_fifo>(); }
  SUBCASE("rr") { compare_many<round_robin, naive_rr>(); }
  SUBCASE("sjf") { compare_many<sjf, naive_sjf>(); }
  SUBCASE("srpt") { compare_many<srpt, naive_srpt>(); }
  SUBCASE("edf") { compare_many<edf, naive_edf>(); }
}

TEST_CASE("deficit decides as deficits that are updated one by one") {
  compare_many<deficit, naive_deficit<naive_fifo>>();
}

TEST_CASE("deficit_over decides as deficits that are updated one by one, at any threshold") {
  SUBCASE("srpt") { compare_thresholds<deficit_over<srpt>, naive_srpt>(); }
  SUBCASE("fifo") { compare_thresholds<deficit_over<fifo>, naive_fifo>(); }
  SUBCASE("rr") { compare_thresholds<deficit_over<round_robin>, naive_rr>(); }
  SUBCASE("edf") { compare_thresholds<deficit_over<edf>, naive_own_edf>(); }
}

TEST_CASE("priority decides as its two classes") {
  compare_many<gsched::priority<edf, srpt>, naive_priority<naive_edf, naive_srpt>>();
  compare_many<gsched::priority<fifo, edf>, naive_priority<naive_fifo, naive_edf>>();
  for (const duration t : thresholds) {
    naive_priority<naive_edf, naive_deficit<naive_srpt>> model;
    model.second.threshold = t;
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
      compare<edf_before_fair>(seed, model, false, t);
  }
}
