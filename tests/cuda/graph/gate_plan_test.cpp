// SPDX-License-Identifier: Apache-2.0
//
// The purpose of gates: wherever a range is held, no operation that a gate holds starts, and all
// others end. A range that is not held takes no longer.
#include "graph/gates/gate_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace gsched::cuda {
namespace {

using numbers = std::vector<std::uint32_t>;
using namespace std::chrono_literals;

std::uint32_t below(std::mt19937& random, std::uint32_t n) {
  return static_cast<std::uint32_t>(random() % n);
}

struct drawn {
  std::vector<numbers> after;
  std::vector<duration> times;
};

drawn draw(std::mt19937& random, std::uint32_t n, std::uint32_t width) {
  drawn d{std::vector<numbers>(n), std::vector<duration>(n)};
  for (std::uint32_t i = 0; i < n; ++i) {
    d.times[i] = duration{500 + static_cast<duration::rep>(random() % 40'000)};
    if (i == 0) continue;
    std::set<std::uint32_t> from;
    if (width <= 1) {
      from.insert(i - 1);
    } else {
      const std::uint32_t least = i > width ? i - width : 0;
      for (auto e = random() % 3; e > 0; --e) from.insert(least + below(random, i - least));
    }
    d.after[i].assign(from.begin(), from.end());
  }
  return d;
}

/// The gates and operations as one list of nodes: gate g is node n + g.
struct gated {
  explicit gated(const drawn& d, const std::vector<planned_gate>& gates)
      : n(static_cast<std::uint32_t>(d.after.size())), before(d.after) {
    before.resize(n + gates.size());
    for (std::uint32_t g = 0; g < gates.size(); ++g) {
      before[n + g] = gates[g].waits;
      for (const std::uint32_t i : gates[g].holds) before[i].push_back(n + g);
    }
  }
  std::uint32_t n;
  std::vector<numbers> before;

  [[nodiscard]] bool ready(std::uint32_t v, const std::vector<bool>& done) const {
    return !done[v] && std::all_of(before[v].begin(), before[v].end(),
                                   [&](std::uint32_t u) { return done[u]; });
  }
  /// Runs up to `most` runnable nodes; gates only if they are open.
  void run(std::vector<bool>& done, bool open, std::mt19937& random, std::size_t most) const {
    for (std::size_t ran = 0; ran < most; ++ran) {
      numbers can;
      for (std::uint32_t v = 0; v < before.size(); ++v)
        if ((open || v < n) && ready(v, done)) can.push_back(v);
      if (can.empty()) return;
      done[can[random() % can.size()]] = true;
    }
  }
  /// All direct and indirect dependents of a node.
  [[nodiscard]] std::vector<bool> behind(std::uint32_t node) const {
    std::vector<bool> is(before.size());
    is[node] = true;
    for (bool more = true; more;) {
      more = false;
      for (std::uint32_t v = 0; v < before.size(); ++v)
        if (!is[v] &&
            std::any_of(before[v].begin(), before[v].end(), [&](std::uint32_t u) { return is[u]; }))
          more = is[v] = true;
    }
    is[node] = false;
    return is;
  }
};

duration makespan(const drawn& d, const std::vector<planned_gate>& gates, duration gate_takes) {
  const gated g(d, gates);
  std::vector<duration> end(g.before.size(), duration{-1});
  const auto end_of = [&](auto&& self, std::uint32_t v) -> duration {
    if (end[v] >= duration::zero()) return end[v];
    duration start{};
    for (const std::uint32_t u : g.before[v]) start = std::max(start, self(self, u));
    return end[v] = start + (v < g.n ? d.times[v] : gate_takes);
  };
  duration last{};
  for (std::uint32_t v = 0; v < g.n; ++v) last = std::max(last, end_of(end_of, v));
  return last;
}

TEST_CASE("in a chain each gate depends on one operation and holds one") {
  const drawn chain = [] {
    drawn d{std::vector<numbers>(6), std::vector<duration>(6, 5us)};
    for (std::uint32_t i = 1; i < 6; ++i) d.after[i] = {i - 1};
    return d;
  }();
  for (const unsigned every : {1u, 2u, 4u}) {
    const std::vector<planned_gate> gates = plan_gates(chain.after, chain.times, every);
    numbers beside;
    for (const planned_gate& g : gates) {
      beside.push_back(g.beside);
      CHECK(g.waits == numbers{g.beside - 1});
      CHECK(g.holds == numbers{g.beside + 1});
      CHECK(g.takes == 5us);
      CHECK(g.followed == (every == 1 && g.beside < 4));
    }
    CHECK(beside == (every == 1 ? numbers{1, 2, 3, 4} : every == 2 ? numbers{1, 3} : numbers{1}));
  }
}

TEST_CASE("two branches of equal operations do not wait for each other at a gate") {
  // 0 forks to 1, 3, 5, ... and 2, 4, 6, ...
  drawn d{std::vector<numbers>(21), std::vector<duration>(21, 20us)};
  for (std::uint32_t i = 1; i < 21; ++i) d.after[i] = {i < 3 ? 0 : i - 2};
  for (std::uint32_t i = 2; i < 21; i += 2) d.times[i] = 13us; // one branch is faster
  const duration free = makespan(d, {}, {});
  const std::vector<planned_gate> gates = plan_gates(d.after, d.times, 1);
  CHECK(gates.size() > 4);
  CHECK(makespan(d, gates, 1500ns) == free);
}

TEST_CASE("a range that is not held takes no longer, except for gates longer than the slack") {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const drawn d = draw(random, 2 + below(random, 40), 1 + below(random, 6));
    const auto gates = plan_gates(d.after, d.times, 1 + below(random, 3));
    // In a chain a gate has the time of the operation beside it, which can be shorter than a gate.
    CHECK(makespan(d, gates, 400ns) == makespan(d, {}, {}));
  }
}

TEST_CASE("operations held at any instant stay held, and all others end") {
  std::mt19937 random(3);
  std::size_t held = 0;
  std::size_t pairs = 0;
  for (int round = 0; round < 4000; ++round) {
    const drawn d = draw(random, 2 + below(random, 14), 1 + below(random, 4));
    const auto gates = plan_gates(d.after, d.times, 1 + below(random, 3));
    const gated g(d, gates);
    for (const planned_gate& p : gates) {
      REQUIRE(!p.waits.empty());
      REQUIRE(!p.holds.empty());
    }
    std::vector<bool> done(g.before.size());
    g.run(done, true, random, random() % (g.before.size() + 1));
    const std::vector<bool> before = done;
    g.run(done, false, random, g.before.size());
    numbers standing;
    for (std::uint32_t k = 0; k < gates.size(); ++k)
      if (g.ready(g.n + k, done)) standing.push_back(k);
    CHECK(standing.size() <= 2);
    if (standing.size() == 2) CHECK(standing[1] == standing[0] + 1);
    pairs += standing.size() == 2 ? 1u : 0u;
    held += standing.empty() ? 0u : 1u;
    std::vector<bool> behind(g.before.size());
    for (std::uint32_t k = 0; k < gates.size(); ++k) {
      if (done[g.n + k]) continue;
      const std::vector<bool> its = g.behind(g.n + k);
      for (std::uint32_t v = 0; v < g.n; ++v) behind[v] = behind[v] || its[v];
    }
    for (std::uint32_t v = 0; v < g.n; ++v) {
      if (behind[v]) CHECK(done[v] == before[v]); // it has not started
      if (!behind[v]) CHECK(done[v]);
    }
    // When the later of two gates is closed, the operations beside the earlier one have ended.
    for (const std::uint32_t k : standing) {
      if (!gates[k].followed || before[g.n + k + 1]) continue;
      CHECK(standing.size() == 2);
    }
    g.run(done, true, random, g.before.size());
    CHECK(std::all_of(done.begin(), done.end(), [](bool is) { return is; }));
  }
  CHECK(held > 500);
  CHECK(pairs > 50);
}

TEST_CASE("a long chain has a gate at every n-th operation") {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t n = 50 + below(random, 100);
    const drawn d = draw(random, n, 1);
    CHECK(plan_gates(d.after, d.times, 2).size() == (n - 1) / 2);
  }
}

} // namespace
} // namespace gsched::cuda
