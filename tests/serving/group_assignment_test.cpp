// SPDX-License-Identifier: Apache-2.0
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/serving/group_assignment.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

using namespace gsched;

namespace {

using groups = std::vector<std::uint32_t>;

groups h200() {
  groups sizes(15, 8);
  sizes.push_back(12);
  return sizes;
}
partition_placement of(std::uint32_t sms, std::vector<std::size_t> models, groups g = {}) {
  return {sm_count{sms}, std::move(g), std::move(models)};
}
std::uint32_t sum_of(const groups& sizes, const groups& which) {
  std::uint32_t sum = 0;
  for (const std::uint32_t g : which) sum += sizes[g];
  return sum;
}

} // namespace

TEST_CASE("groups are assigned from the lowest; the remainder goes to the size that needs it") {
  const std::vector<partition_placement> wanted{of(16, {0}), of(12, {1}), of(104, {2})};
  const auto d = assign_groups(h200(), wanted, {});
  CHECK(sum_of(h200(), d[0].groups) == 16);
  CHECK(d[1].groups == groups{15}); // with the rest
  CHECK(d[2].groups.front() == 0);  // the largest comes first
  CHECK(sum_of(h200(), d[2].groups) == 104);
}

TEST_CASE("a partition with the models is kept; one of other models gives up its groups") {
  const std::vector<partition_placement> there{of(16, {0, 1}, {4, 5}), of(16, {2}, {6, 7}),
                                               of(8, {3}, {4})};
  const std::vector<partition_placement> wanted{of(8, {3}), of(16, {1}), of(16, {3})};
  const auto d = assign_groups(h200(), wanted, there);
  CHECK(d[1].kept == 0u);
  CHECK(d[1].groups == groups{4, 5});
  CHECK(!d[2].kept);
  CHECK(d[2].groups == groups{6, 7}); // so that it waits for that one's batch alone
  CHECK(!d[0].kept);                  // its groups are another's now
  CHECK(d[0].groups == groups{0});
}

TEST_CASE("plans that do not fit are refused in one line") {
  const std::vector<partition_placement> wanted{of(120, {0}), of(16, {1})};
  CHECK_THROWS_WITH_AS(static_cast<void>(assign_groups(h200(), wanted, {})),
                       doctest::Contains("partition of 16 SMs"), error);
  const std::vector<partition_placement> odd{of(10, {0})}, none{of(0, {0})},
      both{of(12, {0}), of(20, {1})};
  CHECK_THROWS_AS(static_cast<void>(assign_groups(h200(), both, {})), error); // what is left over
  CHECK_THROWS_AS(static_cast<void>(assign_groups(h200(), odd, {})), error);
  CHECK_THROWS_AS(static_cast<void>(assign_groups(h200(), none, {})), error);
  CHECK_THROWS_AS(static_cast<void>(assign_groups({}, wanted, {})), error);
}

TEST_CASE("any plan that a GPU's shape allows is assigned, whatever exists already") {
  std::mt19937 random(3);
  const auto draw = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (const auto& [rest, apart] : {std::pair{0u, false}, {4u, false}, {4u, true}, {2u, true}}) {
    const gpu_shape shape{sm_count{128 + rest}, sm_count{8}};
    groups sizes(16, 8);
    if (apart)
      sizes.push_back(rest); // as some drivers have it
    else
      sizes.back() += rest;
    std::vector<partition_placement> there;
    for (int round = 0; round < 3000; ++round) {
      std::vector<partition_placement> wanted;
      std::vector<sm_count> asked;
      for (std::uint32_t n = draw(8) + 1; n > 0; --n) {
        const sm_count s = sizes_of(shape)[draw(shape.groups() / 2 + (round % 9 == 0 ? 8 : 0))];
        const sm_count with_rest{s.count() + (draw(4) == 0 ? rest : 0)};
        asked.push_back(with_rest);
        if (!shape.can_make(asked)) {
          asked.pop_back();
          continue;
        }
        wanted.push_back(of(with_rest.count(), {draw(3)}));
      }
      const auto assigned = assign_groups(sizes, wanted, there);
      std::vector<bool> taken(sizes.size(), false);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        REQUIRE(sum_of(sizes, assigned[i].groups) == wanted[i].sms.count());
        REQUIRE(std::is_sorted(assigned[i].groups.begin(), assigned[i].groups.end()));
        for (const std::uint32_t g : assigned[i].groups) {
          REQUIRE(!taken[g]);
          taken[g] = true;
        }
        if (assigned[i].kept) {
          REQUIRE(there[*assigned[i].kept].groups == assigned[i].groups);
          REQUIRE(there[*assigned[i].kept].models == wanted[i].models);
        }
        wanted[i].groups = assigned[i].groups;
      }
      if (there.size() > 12) there.clear();
      there.insert(there.begin(), wanted.begin(), wanted.end());
    }
  }
}
