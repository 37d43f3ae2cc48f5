// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"
#include "preempt/colocate/plan_check.hpp"
#include "preempt/colocate/random_variants.hpp"

#include <gsched/preempt/colocate/plan.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

using namespace gsched;
using test::draw;

namespace {

struct scene {
  pad_options options;
  std::vector<pad_program> programs; // the first is the real-time one
  std::vector<pad_corunner> corunners;

  pad_planner planner() const { return pad_planner(options, 8, 8); }
};

scene random_scene(std::mt19937_64& random, std::uint32_t most_corunners,
                   std::uint32_t most_variants, std::uint32_t most_operations = 8) {
  scene s;
  s.options.sms = sm_count{draw(random, 1, 4)};
  s.options.parts = draw(random, 1, 4);
  s.options.level = draw(random, 0, 1) == 0 ? level_rule::own : level_rule::needed;
  const std::uint32_t n = draw(random, 1, most_corunners);
  for (std::uint32_t i = 0; i <= n; ++i) {
    auto operations = test::small_program(random, most_operations, i == 0 ? 1 : most_variants);
    for (auto& of : operations) {
      if (draw(random, 0, 9) == 0) of.clear(); // a copy, say
      for (kernel_variant& k : of)
        if (i == 0) k.kernel_time += duration{draw(random, 0, 12)};
    }
    s.programs.emplace_back("p", operations);
  }
  for (std::uint32_t i = 1; i <= n; ++i) {
    pad_corunner g{&s.programs[i], 0, 0, 0};
    g.operation = draw(random, 0, static_cast<std::uint32_t>(s.programs[i].size()));
    s.corunners.push_back(g);
  }
  return s;
}

/// The furthest that a single co-runner can get, by trying every number of blocks in every kernel.
class furthest {
public:
  explicit furthest(const scene& s) : s_(s) {}

  std::pair<std::uint32_t, std::uint32_t> from(std::size_t host, std::uint32_t operation,
                                               std::uint32_t block) {
    const pad_program& corunner = s_.programs[1];
    if (host == s_.programs[0].size() || operation == corunner.size()) return {operation, block};
    const auto key = std::tuple(host, operation, block);
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
    auto best = from(host + 1, operation, block);
    if (!s_.programs[0].variants(host).empty() && !corunner.variants(operation).empty()) {
      const kernel_variant& k = corunner.variants(operation)[0];
      pad_capacity room(s_.programs[0].variants(host)[0], s_.options);
      const std::uint32_t most = room.take(k, k.blocks - block);
      for (std::uint32_t n = 1; n <= most; ++n)
        best = std::max(best, block + n == k.blocks ? from(host + 1, operation + 1, 0)
                                                    : from(host + 1, operation, block + n));
    }
    return known_[key] = best;
  }

private:
  const scene& s_;
  std::map<std::tuple<std::size_t, std::uint32_t, std::uint32_t>,
           std::pair<std::uint32_t, std::uint32_t>>
      known_;
};

} // namespace

TEST_CASE("plans keep the rules, the order and the room, and run each block once") {
  std::mt19937_64 random(41);
  std::size_t parts = 0, spread = 0;
  for (int round = 0; round < 5000; ++round) {
    const scene s = random_scene(random, 4, 3);
    std::vector<pad_corunner> corunners = s.corunners;
    std::vector<pad_part> out(64);
    pad_planner planner = s.planner();
    const std::size_t first = draw(random, 0, static_cast<std::uint32_t>(s.programs[0].size()));
    const std::size_t n = planner.plan(s.programs[0], first, s.programs[0].size(), corunners, out);
    out.resize(n);
    parts += n;
    for (const pad_part& p : out) spread += p.first_block > 0 ? 1u : 0u;
    test::check_plan(s.programs[0], first, s.corunners, corunners, out, s.options);
  }
  CHECK(parts > 5000);
  CHECK(spread > 500);
}

TEST_CASE("equal calls give equal plans, and a plan in pieces is the plan at once") {
  std::mt19937_64 random(42);
  for (int round = 0; round < 1000; ++round) {
    const scene s = random_scene(random, 4, 3);
    pad_planner planner = s.planner();
    const std::size_t hosts = s.programs[0].size();
    std::vector<pad_corunner> once = s.corunners, again = s.corunners, pieces = s.corunners,
                              full = s.corunners;
    std::vector<pad_part> a(64), b(64), c(64), d(64);
    a.resize(planner.plan(s.programs[0], 0, hosts, once, a));
    b.resize(planner.plan(s.programs[0], 0, hosts, again, b));
    CHECK(a == b);
    CHECK(once == again);
    std::size_t n = 0;
    for (std::size_t i = 0; i < hosts; ++i)
      n += planner.plan(s.programs[0], i, i + 1, pieces, std::span(c).subspan(n));
    c.resize(n);
    CHECK(a == c);
    CHECK(once == pieces);
    // With a smaller `out`, its parts are the first ones, and the co-runners are behind them.
    const std::size_t some = draw(random, 0, static_cast<std::uint32_t>(a.size()));
    d.resize(planner.plan(s.programs[0], 0, hosts, full, std::span(d).first(some)));
    REQUIRE(d.size() == some);
    for (std::size_t i = 0; i < some; ++i) {
      pad_part expected = a[i];
      expected.level = d[i].level; // of the last kernel: without the co-runners that came after
      CHECK(d[i] == expected);
    }
    test::check_plan(s.programs[0], 0, s.corunners, full, d, s.options, some < a.size());
  }
}

TEST_CASE("with one co-runner of one variant a kernel no plan gets further") {
  std::mt19937_64 random(43);
  std::size_t moved = 0;
  for (int round = 0; round < 5000; ++round) {
    const scene s = random_scene(random, 1, 1, 6);
    std::vector<pad_corunner> corunners = s.corunners;
    std::vector<pad_part> out(64);
    pad_planner planner = s.planner();
    const std::size_t n = planner.plan(s.programs[0], 0, s.programs[0].size(), corunners, out);
    const auto best = furthest(s).from(0, s.corunners[0].operation, 0);
    CHECK(std::pair(corunners[0].operation, corunners[0].block) == best);
    moved += n > 0 ? 1u : 0u;
  }
  CHECK(moved > 1000);
}

TEST_CASE("with two co-runners the shortest kernel can take the only part from a larger one") {
  pad_options o;
  o.sms = sm_count{4};
  o.parts = 1;
  const kernel_variant host{duration{100}, duration{100}, 0, 0, 32, 1, 1, 0};
  const kernel_variant tiny{duration{5}, duration{5}, 0, 0, 32, 1, 1, 0};
  const kernel_variant large{duration{60}, duration{20}, 0, 0, 32, 12, 1, 0};
  const std::vector<std::vector<kernel_variant>> hosts{{host}}, a{{tiny}}, b{{large}};
  const pad_program rt("rt", hosts), tinies("a", a), larges("b", b);
  std::vector<pad_corunner> corunners{{&tinies, 0, 0, 0}, {&larges, 0, 0, 0}};
  std::vector<pad_part> out(4);
  pad_planner one(o, 2, 1);
  REQUIRE(one.plan(rt, 0, 1, corunners, out) == 1);
  CHECK(out[0] == pad_part{0, 0, 0, 0, 0, 1, 1});
  o.parts = 2; // both: the large one in the remaining slots
  corunners = {{&tinies, 0, 0, 0}, {&larges, 0, 0, 0}};
  pad_planner two(o, 2, 1);
  REQUIRE(two.plan(rt, 0, 1, corunners, out) == 2);
  CHECK(out[1] == pad_part{0, 1, 0, 0, 0, 12, 1});
}

TEST_CASE(
    "a kernel begins no sooner than after the real-time kernel in which its forerunner ends") {
  pad_options o;
  o.sms = sm_count{4};
  const kernel_variant host{duration{100}, duration{100}, 0, 0, 32, 2, 1, 0};
  const kernel_variant corunner{duration{30}, duration{30}, 0, 0, 32, 8, 1, 0};
  const std::vector<std::vector<kernel_variant>> hosts{{host}, {host}, {host}, {host}};
  const std::vector<std::vector<kernel_variant>> corunners_of{{corunner}, {corunner}};
  const pad_program rt("rt", hosts), be("be", corunners_of);
  std::vector<pad_corunner> corunners{{&be, 0, 0, 0}};
  std::vector<pad_part> out(8);
  pad_planner planner(o, 1, 1);
  out.resize(planner.plan(rt, 0, 4, corunners, out));
  // Two slots run three blocks each: six, then the other two and nothing of the next kernel.
  REQUIRE(out.size() == 4);
  CHECK(out[0] == pad_part{0, 0, 0, 0, 0, 6, 1});
  CHECK(out[1] == pad_part{1, 0, 0, 0, 6, 2, 1});
  CHECK(out[2] == pad_part{2, 0, 1, 0, 0, 6, 1});
  CHECK(out[3] == pad_part{3, 0, 1, 0, 6, 2, 1});
  CHECK(corunners[0] == pad_corunner{&be, 2, 0, 0});
}

TEST_CASE("planning does not allocate") {
  std::mt19937_64 random(44);
  const scene s = random_scene(random, 4, 3);
  std::vector<pad_corunner> corunners = s.corunners;
  std::vector<pad_part> out(64);
  pad_planner planner = s.planner();
  const std::size_t before = testing::allocations();
  static_cast<void>(planner.plan(s.programs[0], 0, s.programs[0].size(), corunners, out));
  CHECK(testing::allocations() == before);
}

TEST_CASE("a planner with options that make no sense is refused") {
  CHECK_THROWS_WITH_AS(pad_planner(pad_options{}, 1, 1), "padding: 0 SMs, expected at least 1",
                       error);
}
