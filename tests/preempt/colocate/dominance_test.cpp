// SPDX-License-Identifier: Apache-2.0
#include "preempt/colocate/random_variants.hpp"

#include <gsched/preempt/colocate/dominance.hpp>
#include <gsched/preempt/colocate/rules.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <vector>

using namespace gsched;
using test::draw;

namespace {

bool smaller_in_each(const kernel_variant& a, const kernel_variant& b) {
  return a.kernel_time < b.kernel_time && a.block_time < b.block_time &&
         a.registers_per_thread < b.registers_per_thread && a.shared_bytes < b.shared_bytes &&
         a.threads_per_block < b.threads_per_block && a.blocks < b.blocks;
}

bool greater_in_none(const kernel_variant& a, const kernel_variant& b) {
  return a.kernel_time <= b.kernel_time && a.block_time <= b.block_time &&
         a.registers_per_thread <= b.registers_per_thread && a.shared_bytes <= b.shared_bytes &&
         a.threads_per_block <= b.threads_per_block && a.blocks <= b.blocks;
}

/// By comparing every pair.
std::vector<kernel_variant> pruned_by_pairs(const std::vector<kernel_variant>& all, dominance how) {
  std::vector<kernel_variant> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    bool goes = false;
    for (std::size_t j = 0; j < all.size(); ++j) {
      if (i == j) continue;
      if (how == dominance::better_in_every)
        goes = goes || smaller_in_each(all[j], all[i]);
      else if (greater_in_none(all[j], all[i]))
        // equal variants: the first remains
        goes = goes || !greater_in_none(all[i], all[j]) || j < i;
    }
    if (!goes) out.push_back(all[i]);
  }
  return out;
}

std::vector<kernel_variant> some(std::mt19937_64& random, std::uint32_t most) {
  std::vector<kernel_variant> all(draw(random, 0, most));
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    all[i] = test::small_variant(random);
    all[i].function = i;
  }
  return all;
}

} // namespace

TEST_CASE("each of the six criteria counts, and nothing else does") {
  kernel_variant a;
  a.kernel_time = a.block_time = from_us(1);
  a.registers_per_thread = a.shared_bytes = a.threads_per_block = a.blocks = 100;
  const auto each = [](const kernel_variant& k, auto with) {
    for (int i = 0; i < 6; ++i) {
      kernel_variant c = k;
      if (i == 0) c.kernel_time += duration{1};
      if (i == 1) c.block_time += duration{1};
      if (i == 2) ++c.registers_per_thread;
      if (i == 3) ++c.shared_bytes;
      if (i == 4) ++c.threads_per_block;
      if (i == 5) ++c.blocks;
      with(c);
    }
  };
  CHECK_FALSE(dominates(a, a));
  each(a, [&](const kernel_variant& worse) {
    CHECK(dominates(a, worse));
    CHECK_FALSE(dominates(worse, a));
    CHECK_FALSE(dominates(a, worse, dominance::better_in_every));
  });
  kernel_variant worst{from_us(2), from_us(2), 200, 200, 200, 200, 0, 0};
  CHECK(dominates(a, worst, dominance::better_in_every));
  each(a, [&](kernel_variant b) { // better in five, worse in one
    std::swap(b, worst);
    each(worst,
         [&](const kernel_variant& c) { CHECK(dominates(worst, c) != dominates(c, worst)); });
    std::swap(b, worst);
  });
  kernel_variant other = a;
  other.level = 9;
  other.function = 9;
  CHECK_FALSE(dominates(a, other));
  CHECK_FALSE(dominates(other, a));
}

TEST_CASE("prune keeps what the definition keeps, in order") {
  std::mt19937_64 random(11);
  std::size_t dropped = 0;
  for (const dominance how : {dominance::no_worse, dominance::better_in_every})
    for (int round = 0; round < 3000; ++round) {
      const std::vector<kernel_variant> all = some(random, 40);
      const std::vector<kernel_variant> kept = prune(all, how);
      CHECK(kept == pruned_by_pairs(all, how));
      CHECK(prune(kept, how) == kept);
      dropped += all.size() - kept.size();
    }
  CHECK(dropped > 1000);
}

TEST_CASE("no order of the input changes which variants stay") {
  std::mt19937_64 random(12);
  for (int round = 0; round < 200; ++round) {
    std::vector<kernel_variant> all = some(random, 40);
    const auto six = [](const std::vector<kernel_variant>& from) {
      std::vector<std::array<std::int64_t, 6>> keys;
      for (const kernel_variant& k : from) keys.push_back(detail::criteria(k));
      std::sort(keys.begin(), keys.end());
      return keys;
    };
    const auto before = six(prune(all));
    std::shuffle(all.begin(), all.end(), random);
    CHECK(six(prune(all)) == before);
  }
}

TEST_CASE("pruning takes no selection away: what stays meets the rules as early and is as fast") {
  const architecture_limits l = limits_for(9, 0);
  std::mt19937_64 random(13);
  for (int round = 0; round < 1000; ++round) {
    std::vector<kernel_variant> all = some(random, 30);
    for (kernel_variant& k : all) k.level = level_of(l, k);
    const std::vector<kernel_variant> kept = prune(all);
    const auto best = [](const std::vector<kernel_variant>& from, const pad_terms& t) {
      std::optional<duration> least;
      for (const kernel_variant& k : from)
        if (t.admit(k) && (!least || k.kernel_time < *least)) least = k.kernel_time;
      return least;
    };
    for (std::uint32_t level = 1; level <= 16; ++level)
      for (int time = 0; time < 9; ++time) {
        const pad_terms t{duration{time}, level};
        CHECK(best(kept, t) == best(all, t));
      }
  }
}

TEST_CASE("a thousand tuned variants become few") {
  // Tuned variants: less time for more registers and shared memory, with noise.
  std::mt19937_64 random(14);
  std::vector<kernel_variant> all;
  for (int i = 0; i < 1000; ++i) {
    kernel_variant k;
    k.registers_per_thread = 32 * draw(random, 1, 6);
    k.shared_bytes = 8192 * draw(random, 0, 4);
    k.threads_per_block = 64u << draw(random, 0, 2);
    k.blocks = 100 * draw(random, 1, 6);
    k.kernel_time = duration{40000 + 600000 / k.registers_per_thread + draw(random, 0, 400000)};
    k.block_time = k.kernel_time / (1 + k.blocks / 132) + duration{draw(random, 0, 5000)};
    all.push_back(k);
  }
  const std::vector<kernel_variant> kept = prune(all);
  CHECK(kept == pruned_by_pairs(all, dominance::no_worse));
  CHECK(kept.size() < 250);
}
