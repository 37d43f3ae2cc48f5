// SPDX-License-Identifier: Apache-2.0
#include <gsched/partition/gpu_shape.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

/// Whether groups can be assigned so that each wish from the i-th on gets exactly its SMs, the
/// i-th one `lacks` more from the groups after `from`: by trying everything.
bool can_assign(const gpu_shape& shape, std::vector<std::uint32_t>& left,
                const std::vector<sm_count>& wishes, std::size_t i, std::uint32_t lacks,
                std::size_t from) {
  if (lacks == 0)
    return i + 1 == wishes.size() ||
           can_assign(shape, left, wishes, i + 1, wishes[i + 1].count(), 0);
  for (std::size_t g = from; g < left.size(); ++g) {
    if (left[g] == 0 || left[g] > lacks) continue;
    const bool is_alone = g + 1 == left.size() && lacks == left[g] && lacks == wishes[i].count();
    if (is_alone && g > 0 && left[g] > shape.group.count() && !shape.last_alone) continue;
    const std::uint32_t group_usage = std::exchange(left[g], 0);
    const bool can = can_assign(shape, left, wishes, i, lacks - group_usage, g + 1);
    left[g] = group_usage;
    if (can) return true;
  }
  return false;
}

bool can_assign(const gpu_shape& g, const std::vector<sm_count>& wishes) {
  std::vector<std::uint32_t> groups(g.groups(), g.group.count());
  groups.back() += g.remainder().count();
  if (g.sms < g.group) groups = {g.sms.count()};
  for (const sm_count w : wishes)
    if (w.count() == 0) return false;
  return wishes.empty() || can_assign(g, groups, wishes, 0, wishes[0].count(), 0);
}

} // namespace

TEST_CASE("an H200 is 15 groups of 8 SMs and one of 12") {
  const gpu_shape h200;
  CHECK(h200.groups() == 16);
  CHECK(h200.remainder() == sm_count{4});
  CHECK(h200.of_groups(1) == sm_count{8});
  CHECK(h200.of_groups(15) == sm_count{120});
  CHECK(h200.of_groups(16) == sm_count{132});
  CHECK(h200.filling(1) == sm_count{12});
  CHECK(h200.filling(15) == sm_count{124});
  CHECK(h200.filling(16) == sm_count{132});
  CHECK(gpu_shape{sm_count{132}, sm_count{8}, false}.filling(1) == sm_count{8});
  CHECK(h200.groups_for(sm_count{9}) == 2);
  CHECK(h200.groups_for(sm_count{120}) == 15);
  CHECK(h200.groups_for(sm_count{121}) == 16);
  CHECK(h200.groups_for(sm_count{132}) == 16);
  CHECK(h200.groups_for(sm_count{133}) == 17);
  CHECK(h200.can_make(sm_count{12}));
  const gpu_shape joined{sm_count{132}, sm_count{8}, false};
  CHECK(!joined.can_make(sm_count{12}));
  CHECK(joined.can_make(sm_count{20}));
  CHECK(joined.can_make(sm_count{132}));
  CHECK(!h200.can_make(sm_count{4}));
  CHECK(!h200.can_make(sm_count{128}));
  CHECK(sizes_of(h200).size() == 16);
}

TEST_CASE("can_make agrees with exhaustive assignment of groups") {
  // Small GPUs, with and without a remainder, and one smaller than a group.
  for (const gpu_shape g : {gpu_shape{sm_count{7}, sm_count{2}},
                            {sm_count{7}, sm_count{2}, false},
                            {sm_count{8}, sm_count{2}},
                            {sm_count{11}, sm_count{3}},
                            {sm_count{11}, sm_count{3}, false},
                            {sm_count{12}, sm_count{4}},
                            {sm_count{5}, sm_count{3}, false},
                            {sm_count{3}, sm_count{8}}}) {
    const std::uint32_t sms = g.sms.count();
    for (std::uint32_t a = 0; a <= sms + 1; ++a) {
      CAPTURE(sms);
      CAPTURE(a);
      REQUIRE(g.can_make(sm_count{a}) == can_assign(g, {sm_count{a}}));
      for (std::uint32_t b = 0; b <= sms + 1; ++b) {
        CAPTURE(b);
        const std::vector<sm_count> two{sm_count{a}, sm_count{b}};
        REQUIRE(g.can_make(two) == can_assign(g, two));
        for (std::uint32_t c = 0; c <= sms + 1; ++c) {
          const std::vector<sm_count> three{sm_count{a}, sm_count{b}, sm_count{c}};
          REQUIRE(g.can_make(three) == can_assign(g, three));
        }
      }
    }
  }
}

TEST_CASE("groups_for is the inverse of of_groups") {
  for (std::uint32_t sms = 1; sms < 40; ++sms)
    for (std::uint32_t group = 1; group < 12; ++group) {
      const gpu_shape g{sm_count{sms}, sm_count{group}};
      for (std::uint32_t n = 1; n <= g.groups(); ++n) {
        REQUIRE(g.can_make(g.of_groups(n)));
        REQUIRE(g.groups_for(g.of_groups(n)) == n);
        if (n > 1) REQUIRE(g.of_groups(n) > g.of_groups(n - 1));
      }
    }
}

TEST_CASE("each partition of a shape without its last group is one with it") {
  CHECK(gpu_shape{}.without_last_group() == gpu_shape{sm_count{120}});
  CHECK(gpu_shape{sm_count{15}, sm_count{8}}.without_last_group() ==
        gpu_shape{sm_count{15}, sm_count{8}});
  CHECK(gpu_shape{sm_count{4}, sm_count{8}}.without_last_group().sms == sm_count{4});
  for (const bool last_alone : {true, false})
    for (std::uint32_t sms = 16; sms <= 44; ++sms) {
      const gpu_shape all{sm_count{sms}, sm_count{8}, last_alone};
      const gpu_shape fewer = all.without_last_group();
      CHECK(fewer.groups() + 1 == all.groups());
      CHECK(fewer.remainder() == sm_count{0});
      for (std::uint32_t a = 1; a <= sms; ++a)
        for (std::uint32_t b = 1; b <= sms; ++b) {
          const sm_count sizes[] = {sm_count{a}, sm_count{b}};
          CHECK((!fewer.can_make(sm_count{a}) || all.can_make(sm_count{a})));
          CHECK((!fewer.can_make(sizes) || all.can_make(sizes)));
        }
    }
  std::vector<gpu_shape> some{{sm_count{20}, sm_count{8}}, {sm_count{8}, sm_count{8}}};
  CHECK(try_drop_last_groups(some));
  CHECK(some[0].sms == sm_count{8});
  CHECK(some[1].sms == sm_count{8});
  CHECK_FALSE(try_drop_last_groups(some));
}

} // namespace gsched::testing
