// SPDX-License-Identifier: Apache-2.0
#include <gsched/job/program.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace gsched;

namespace {

program with_times(const std::vector<int>& times) {
  std::vector<operation> ops(times.size());
  for (std::size_t i = 0; i < times.size(); ++i) ops[i].expected = duration{times[i]};
  return {"p", std::move(ops)};
}

/// The contract of program::cut, by trying every end.
std::size_t nearest_end(const program& p, std::size_t first, duration quantum) {
  std::size_t best = first + 1;
  const auto distance = [&](std::size_t last) {
    const duration d = p.expected(first, last) - quantum;
    return d < duration::zero() ? -d : d;
  };
  for (std::size_t last = first + 2; last <= p.size(); ++last)
    if (distance(last) < distance(best)) best = last;
  return best;
}

} // namespace

TEST_CASE("a cut is the end nearest to a quantum, and always goes on") {
  std::mt19937_64 r(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> times(1 + r() % 20);
    for (int& t : times) t = static_cast<int>(r() % 6) * 10;
    const program p = with_times(times);
    const std::size_t first = r() % p.size();
    const duration q{static_cast<int>(r() % 100)};
    const std::size_t last = p.cut(first, q);
    REQUIRE(last > first);
    REQUIRE(last <= p.size());
    const std::size_t best = nearest_end(p, first, q);
    const duration here = p.expected(first, last), there = p.expected(first, best);
    const auto off = [q](duration d) { return d < q ? q - d : d - q; };
    REQUIRE(off(here) == off(there)); // among equal distances, either end
  }
}

TEST_CASE("cuts cover a program without a gap, each no further from a quantum than its longest") {
  std::mt19937_64 r(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<int> times(1 + r() % 200);
    for (int& t : times) t = 1 + static_cast<int>(r() % 50);
    const program p = with_times(times);
    const duration q{100};
    duration sum{};
    for (std::size_t first = 0; first < p.size();) {
      const std::size_t last = p.cut(first, q);
      REQUIRE(last > first);
      sum += p.expected(first, last);
      if (last < p.size()) {
        CHECK(p.expected(first, last) >= q - duration{25});
        CHECK(p.expected(first, last) <= q + duration{25});
      }
      first = last;
    }
    REQUIRE(sum == p.expected());
  }
}

TEST_CASE("the longest quantum takes the rest, from anywhere") {
  const program p = with_times({5, 0, 7, 100000, 3});
  for (std::size_t first = 0; first < p.size(); ++first)
    CHECK(p.cut(first, run_to_completion) == p.size());
  CHECK(p.cut(0, duration::zero()) == 1);
}

TEST_CASE("an aligned program is cut into the ranges that were promised, and no others") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> times(1 + random() % 80);
    for (int& t : times) t = 1 + static_cast<int>(random() % 40);
    program p = with_times(times);
    const unsigned levels = 1 + static_cast<unsigned>(random() % 5);
    p.align(duration{50}, levels);
    const std::span<const std::size_t> ends = p.grain_ends();
    REQUIRE(ends.front() == 0);
    REQUIRE(ends.back() == p.size());
    std::set<std::pair<std::size_t, std::size_t>> promised;
    const std::size_t n = ends.size() - 1;
    for (unsigned k = 0; k < levels; ++k)
      for (std::size_t i = 0; i < n; i += std::size_t{1} << k)
        promised.emplace(ends[i], ends[std::min(i + (std::size_t{1} << k), n)]);
    CHECK(promised.size() <= 2 * n);
    for (std::size_t first = 0; first < p.size();) {
      const duration quantum{static_cast<duration::rep>(random() % 900)};
      const std::size_t last = p.cut(first, quantum);
      REQUIRE(last > first);
      REQUIRE(promised.count({first, last}) == 1);
      const bool one_grain = std::upper_bound(ends.begin(), ends.end(), first)[0] == last;
      if (!one_grain) CHECK(p.expected(first, last) <= quantum + quantum / 4);
      first = last;
    }
    CHECK(p.cut(0, run_to_completion) == p.size());
  }
}

TEST_CASE("an aligned program's segments grow as far as its levels and its alignment let them") {
  program p = with_times(std::vector<int>(16, 100));
  p.align(duration{100}, 4);
  CHECK(p.grain_ends().size() == 17);
  CHECK(p.cut(0, duration{100}) == 1);
  CHECK(p.cut(0, duration{200}) == 2);
  CHECK(p.cut(0, duration{399}) == 4);
  CHECK(p.cut(0, duration{3000}) == 8);
  CHECK(p.cut(2, duration{800}) == 4); // 2 is a multiple of 2, and not of 4
  CHECK(p.cut(3, duration{800}) == 4);
  CHECK(p.cut(12, duration{800}) == 16);
  CHECK(p.cut(5, duration::zero()) == 6);
}

TEST_CASE("operations that are to be alone are grains of their own, in no longer run") {
  std::mt19937_64 random(17);
  for (int round = 0; round < 200; ++round) {
    program p = with_times(std::vector<int>(1 + random() % 60, 20));
    std::vector<std::size_t> alone;
    for (std::size_t i = 0; i < p.size(); ++i)
      if (random() % 9 == 0) alone.push_back(i);
    p.align(duration{50}, 4, alone);
    const auto ends = p.grain_ends();
    for (const std::size_t i : alone) {
      CHECK(std::count(ends.begin(), ends.end(), i) == 1);
      CHECK(std::count(ends.begin(), ends.end(), i + 1) == 1);
    }
    for (std::size_t first = 0; first < p.size();) {
      const std::size_t last = p.cut(first, duration{400});
      const auto in = std::lower_bound(alone.begin(), alone.end(), first);
      const bool some = in != alone.end() && *in < last;
      CHECK(p.holds_alone(first, last) == some);
      if (some) CHECK(last == first + 1);
      first = last;
    }
  }
}

TEST_CASE("grains end where a cut is cheap, within half the grain") {
  program p = with_times(std::vector<int>(12, 25));
  std::vector<duration> losses(13, duration{40});
  losses[0] = losses[12] = duration{0};
  losses[3] = losses[9] = duration{0}; // 75 and 225
  losses[6] = duration{0};             // 150
  p.set_cut_losses(losses);
  p.align(duration{100}, 1);
  const auto ends = p.grain_ends();
  CHECK(std::vector<std::size_t>(ends.begin(), ends.end()) ==
        std::vector<std::size_t>{0, 3, 6, 9, 12});
  losses.assign(13, duration{1}); // equal losses: the nearest end
  p.set_cut_losses(losses);
  p.align(duration{100}, 1);
  CHECK(p.grain_ends()[1] == 4);
  losses[1] = duration{0}; // cheap, but too far away
  p.set_cut_losses(losses);
  p.align(duration{100}, 1);
  CHECK(p.grain_ends()[1] == 4);
}

TEST_CASE("ranges are the operations in their order") {
  const program p = with_times({1, 2, 3, 4});
  CHECK(p.range(1, 1).empty());
  const auto range = p.range(1, 3);
  REQUIRE(range.size() == 2);
  CHECK(range[0] == &p.operations()[1]);
  CHECK(range[1] == &p.operations()[2]);
  CHECK(p.expected(1, 3) == duration{5});
}

TEST_CASE("the longest kernel is that alone: copies do not count") {
  std::vector<operation> ops(4);
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i].expected = duration{static_cast<int>(10 * i)};
  ops[3].kind = operation_kind::memcpy;
  CHECK(program("p", ops).longest_kernel() == duration{20});
  ops.erase(ops.begin(), ops.begin() + 3);
  CHECK(program("copies", ops).longest_kernel() == duration::zero());
}

TEST_CASE("a program is neither empty nor holds what is no device work") {
  CHECK_THROWS_WITH_AS(program("m", {}), "m: no operations", error);
  for (const operation_kind k :
       {operation_kind::event_record, operation_kind::event_wait, operation_kind::host_function}) {
    std::vector<operation> ops(3);
    ops[2].kind = k;
    CHECK_THROWS_WITH_AS(program("m", ops),
                         "m: operation 2 is no device work, expected kernel, memcpy or memset",
                         error);
  }
}
