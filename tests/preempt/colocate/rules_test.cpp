// SPDX-License-Identifier: Apache-2.0
#include "preempt/colocate/random_variants.hpp"

#include <gsched/preempt/colocate/capacity.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

using namespace gsched;
using test::draw;
using test::small_variant;

namespace {

kernel_variant variant(std::uint32_t blocks, std::uint32_t level, int kernel_ns, int block_ns) {
  kernel_variant k;
  k.blocks = blocks;
  k.level = level;
  k.kernel_time = duration{kernel_ns};
  k.block_time = duration{block_ns};
  return k;
}

/// Slots one by one, each with the time from which it is free.
struct places {
  std::vector<duration> free;
  duration until;

  std::uint32_t take(duration block, std::uint32_t blocks) {
    std::uint32_t n = 0;
    for (; n < blocks && !free.empty(); ++n) {
      duration& first = *std::min_element(free.begin(), free.end());
      if (first + block >= until) break;
      first += block;
    }
    return n;
  }
};

std::uint64_t waves(const kernel_variant& k, std::uint32_t level, std::uint32_t sms) {
  std::uint64_t n = 0;
  for (std::uint64_t done = 0; done < k.blocks; done += std::uint64_t{level} * sms) ++n;
  return n;
}

} // namespace

TEST_CASE("rule 1: a block ends before the real-time kernel; rule 2: its level is no lower") {
  const kernel_variant rt = variant(100, 4, 1000, 900);
  CHECK(rule_1(rt, variant(1, 1, 5000, 999)));
  CHECK_FALSE(rule_1(rt, variant(1, 1, 1000, 1000)));
  CHECK_FALSE(rule_1(rt, variant(1, 1, 5000, 1001)));
  CHECK(rule_2(rt, variant(1, 4, 10, 10)));
  CHECK(rule_2(rt, variant(1, 5, 10, 10)));
  CHECK_FALSE(rule_2(rt, variant(1, 3, 10, 10)));
  CHECK(rule_2_needed(rt, variant(1, 1, 10, 10), sm_count{100}));
  CHECK_FALSE(rule_2_needed(rt, variant(1, 1, 10, 10), sm_count{99}));
  CHECK(rule_2_needed(rt, variant(1, 2, 10, 10), sm_count{99}));
}

TEST_CASE("the needed level is the least one with as few waves") {
  for (std::uint32_t sms : {1u, 2u, 3u, 7u})
    for (std::uint32_t level = 1; level <= 6; ++level)
      for (std::uint32_t blocks = 1; blocks <= 60; ++blocks) {
        const kernel_variant k = variant(blocks, level, 10, 10);
        std::uint32_t least = 1;
        while (waves(k, least, sms) > waves(k, level, sms)) ++least;
        CHECK(needed_level(k, sm_count{sms}) == least);
        CHECK(required_level(k, level_rule::needed, sm_count{sms}) == least);
        CHECK(required_level(k, level_rule::own, sm_count{sms}) == level);
      }
}

TEST_CASE("terms are rules 1 and 2") {
  std::mt19937_64 random(21);
  const sm_count sms{4};
  for (int i = 0; i < 5000; ++i) {
    const kernel_variant rt = small_variant(random), be = small_variant(random);
    CHECK(terms_of(rt, level_rule::own, sms).admit(be) == (rule_1(rt, be) && rule_2(rt, be)));
    CHECK(terms_of(rt, level_rule::needed, sms).admit(be) ==
          (rule_1(rt, be) && rule_2_needed(rt, be, sms)));
  }
}

TEST_CASE("room: SMs x level less the blocks of the last wave, each for that wave's time") {
  pad_options o;
  o.sms = sm_count{132};
  SUBCASE("one wave, its own level") {
    o.level = level_rule::own;
    pad_capacity room(variant(100, 4, 1000, 1000), o);
    CHECK(room.terms() == pad_terms{duration{1000}, 4});
    CHECK(room.take(variant(10000, 8, 0, 600), 10000) == 4 * 132 - 100);
    CHECK(room.level() == 4);
    CHECK(room.terms() == pad_terms{duration{400}, 4});
  }
  SUBCASE("one wave, the needed level: a lower co-runner lowers it") {
    pad_capacity room(variant(100, 4, 1000, 1000), o);
    CHECK(room.terms().level == 1);
    CHECK(room.take(variant(10000, 2, 0, 600), 10000) == 2 * 132 - 100);
    CHECK(room.level() == 2);
    CHECK(room.terms() == pad_terms{duration{400}, 2});
  }
  SUBCASE("a last wave that is full leaves a place from the next level on") {
    CHECK(pad_capacity(variant(132, 4, 1000, 1000), o).terms().level == 2);
    o.level = level_rule::own;
    CHECK(pad_capacity(variant(4 * 132, 4, 1000, 1000), o).terms().time == duration::zero());
    CHECK(pad_capacity(variant(2 * 4 * 132, 4, 1000, 500), o).terms().time == duration::zero());
  }
  SUBCASE("several waves: the last one's part of the time") {
    o.level = level_rule::own;
    pad_capacity room(variant(4 * 132 + 28, 4, 1000, 500), o);
    CHECK(room.terms().time == duration{500});
    CHECK(room.take(variant(10000, 4, 0, 499), 10000) == 500);
  }
  SUBCASE("short blocks follow one another, and end before the kernel") {
    pad_capacity room(variant(100, 1, 1000, 1000), o);
    CHECK(room.take(variant(10000, 1, 0, 333), 10000) == 3 * 32);
    pad_capacity tight(variant(100, 1, 999, 999), o);
    CHECK(tight.take(variant(10000, 1, 0, 333), 10000) == 2 * 32);
  }
  SUBCASE("a share of the time") {
    o.share = 0.5;
    CHECK(pad_capacity(variant(100, 1, 1000, 1000), o).terms().time == duration{500});
  }
  SUBCASE("no more parts than a proxy carries") {
    o.parts = 1;
    pad_capacity room(variant(1, 1, 1000, 1000), o);
    CHECK(room.take(variant(1, 1, 10, 10), 1) == 1);
    CHECK(room.take(variant(1, 1, 10, 10), 1) == 0);
  }
}

TEST_CASE("what a room takes is what places taken one by one take") {
  std::mt19937_64 random(22);
  std::uint64_t blocks = 0;
  for (int round = 0; round < 40000; ++round) {
    pad_options o;
    o.sms = sm_count{draw(random, 1, 5)};
    o.parts = draw(random, 1, pad_options::most_parts);
    o.level = draw(random, 0, 1) == 0 ? level_rule::own : level_rule::needed;
    kernel_variant rt = small_variant(random, 30, 4);
    rt.kernel_time = duration{draw(random, 1, 60)};
    pad_capacity room(rt, o);
    places naive;
    const std::uint64_t n = waves(rt, rt.level, o.sms.count());
    naive.until = rt.kernel_time / static_cast<duration::rep>(n);
    std::uint32_t parts = 0;
    for (std::uint32_t tries = 0; tries <= o.parts; ++tries) {
      const kernel_variant corunner = small_variant(random, 12, 4);
      const std::uint32_t want = draw(random, 0, 40);
      const pad_terms terms = room.terms();
      const std::uint32_t got = room.take(corunner, want);
      blocks += got;
      if (!terms.admit(corunner) || want == 0) {
        CHECK(got == 0);
        continue;
      }
      CHECK(got > 0);
      CHECK(++parts <= o.parts);
      CHECK(rule_1(rt, corunner));
      CHECK(
          (o.level == level_rule::own ? rule_2(rt, corunner) : rule_2_needed(rt, corunner, o.sms)));
      const std::uint64_t all = std::uint64_t{room.level()} * o.sms.count();
      if (naive.free.empty()) naive.free.resize(static_cast<std::size_t>(n * all - rt.blocks));
      CHECK(corunner.level >= room.level());
      CHECK(room.level() <= rt.level);
      CHECK(waves(rt, room.level(), o.sms.count()) == n);
      CHECK(got == naive.take(corunner.block_time, want));
    }
  }
  CHECK(blocks > 100000);
}

TEST_CASE("options are refused in one line") {
  const auto line = [](auto change, const char* text) {
    pad_options o;
    o.sms = sm_count{132};
    CHECK_NOTHROW(o.check());
    change(o);
    CHECK_THROWS_WITH_AS(o.check(), text, error);
  };
  line([](auto& o) { o.sms = sm_count{0}; }, "padding: 0 SMs, expected at least 1");
  line([](auto& o) { o.parts = 0; }, "padding: 0 parts, expected 1 to 15");
  line([](auto& o) { o.parts = 16; }, "padding: 16 parts, expected 1 to 15");
  line([](auto& o) { o.share = 0; }, "padding: share 0, expected more than 0 and at most 1");
  line([](auto& o) { o.share = std::numeric_limits<double>::quiet_NaN(); },
       "padding: share nan, expected more than 0 and at most 1");
}
