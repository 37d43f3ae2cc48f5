// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"
#include "preempt/colocate/random_variants.hpp"

#include <gsched/preempt/colocate/selection.hpp>

#include <doctest/doctest.h>

#include <optional>
#include <tuple>
#include <vector>

using namespace gsched;
using test::draw;
using test::small_variant;

namespace {

using tasks = std::vector<std::vector<kernel_variant>>;

/// By examining all candidates.
std::optional<pad_pick> search(const tasks& all, const pad_terms& terms) {
  std::optional<pad_pick> best;
  duration least = duration::max();
  for (std::uint32_t t = 0; t < all.size(); ++t)
    for (std::uint32_t v = 0; v < all[t].size(); ++v)
      if (all[t][v].block_time < terms.time && all[t][v].level >= terms.level &&
          all[t][v].kernel_time < least) {
        least = all[t][v].kernel_time;
        best = pad_pick{t, v};
      }
  return best;
}

} // namespace

TEST_CASE("the selector picks what a search of all picks while tasks come, go and advance") {
  std::mt19937_64 random(31);
  std::size_t picked = 0;
  for (const auto& [max_tasks, max_variants] :
       {std::pair{1u, 1u}, {3u, 5u}, {16u, 1u}, {17u, 3u}, {40u, 10u}}) {
    pad_selector s(max_tasks, max_variants);
    tasks all(max_tasks);
    CHECK(s.select(pad_terms{duration{1000}, 0}) == std::nullopt);
    const std::size_t before = testing::allocations();
    std::size_t naive = 0;
    for (int step = 0; step < 10000; ++step) {
      const std::uint32_t t = draw(random, 0, max_tasks - 1);
      const std::size_t here = testing::allocations();
      all[t].clear();
      if (draw(random, 0, 2) > 0)
        for (std::uint32_t n = draw(random, 1, max_variants); n > 0; --n)
          all[t].push_back(small_variant(random));
      naive += testing::allocations() - here;
      if (all[t].empty())
        s.erase(t);
      else
        s.set(t, all[t]);
      const pad_terms terms{duration{draw(random, 0, 8)}, draw(random, 1, 4)};
      const auto answer = s.select(terms);
      CHECK(answer == search(all, terms));
      if (answer) ++picked;
    }
    CHECK(testing::allocations() - before == naive);
  }
  CHECK(picked > 10000);
}

TEST_CASE("it selects for a real-time kernel by the rules") {
  pad_selector s(2, 1);
  kernel_variant long_block = kernel_variant{from_us(50), from_us(10), 0, 0, 0, 1, 8, 0};
  kernel_variant low = kernel_variant{from_us(60), from_us(1), 0, 0, 0, 1, 1, 0};
  s.set(0, {&long_block, 1});
  s.set(1, {&low, 1});
  const kernel_variant rt{from_us(10), from_us(10), 0, 0, 0, 132, 4, 0};
  const sm_count sms{132};
  CHECK(s.select(rt, level_rule::own, sms) == std::nullopt);
  CHECK(s.select(rt, level_rule::needed, sms) == pad_pick{1, 0});
  kernel_variant longer = rt;
  longer.kernel_time += duration{1};
  CHECK(s.select(longer, level_rule::own, sms) == pad_pick{0, 0});
}

TEST_CASE("times beyond 2.147 s count as that, and such blocks are never chosen") {
  pad_selector s(3, 1);
  const duration hour = std::chrono::hours{1};
  const kernel_variant endless{hour, hour, 0, 0, 0, 1, 1, 0};
  const kernel_variant many{2 * hour, from_us(1), 0, 0, 0, 1, 1, 0};
  s.set(0, {&endless, 1});
  CHECK(s.select(pad_terms{2 * hour, 1}) == std::nullopt);
  s.set(1, {&many, 1});
  CHECK(s.select(pad_terms{2 * hour, 1}) == pad_pick{1, 0});
  const kernel_variant below{from_us(1), duration{-5}, 0, 0, 0, 1, 1, 0};
  s.set(2, {&below, 1});
  CHECK(s.select(pad_terms{duration::min(), 1}) == std::nullopt);
}

TEST_CASE("a selector of no tasks, or of too many, is refused") {
  CHECK_THROWS_AS(pad_selector(0, 1), error);
  CHECK_THROWS_AS(pad_selector(1, 0), error);
  CHECK_THROWS_AS(pad_selector(std::size_t{1} << 30, std::size_t{1} << 40), error);
}
