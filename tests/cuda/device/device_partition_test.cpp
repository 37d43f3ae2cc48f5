// SPDX-License-Identifier: Apache-2.0
#include "cuda/device/device_driven.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace gsched::testing {
namespace {

using groups = std::vector<std::uint32_t>;

TEST_CASE("a partition is the lowest run of free groups with the fewest spare SMs") {
  std::vector<std::uint32_t> sizes(15, 8);
  sizes.push_back(12); // as on an H200
  std::vector<bool> taken(16, false);
  CHECK(cuda::fewest_groups(sizes, taken, 1) == groups{0});
  CHECK(cuda::fewest_groups(sizes, taken, 8) == groups{0});
  CHECK(cuda::fewest_groups(sizes, taken, 12) == groups{15});
  CHECK(cuda::fewest_groups(sizes, taken, 20) == groups{14, 15});
  CHECK(cuda::fewest_groups(sizes, taken, 24) == groups{0, 1, 2});
  CHECK(cuda::fewest_groups(sizes, taken, 132).size() == 16);
  CHECK(cuda::fewest_groups(sizes, taken, 133).empty());
  taken[1] = true;
  CHECK(cuda::fewest_groups(sizes, taken, 16) == groups{2, 3});
  CHECK(cuda::fewest_groups(sizes, taken, 8) == groups{0});
  CHECK(cuda::fewest_groups(sizes, taken, 117).empty());
  CHECK(cuda::fewest_groups({}, {}, 1).empty());
}

TEST_CASE("a partition that reserves SMs has the free groups behind them") {
  std::vector<std::uint32_t> sizes(15, 8);
  sizes.push_back(12); // as on an H200
  std::vector<bool> taken(16, false);
  CHECK(cuda::groups_but(sizes, taken, 8).size() == 15);
  CHECK(cuda::groups_but(sizes, taken, 8).front() == 1);
  CHECK(cuda::groups_but(sizes, taken, 9).front() == 2);
  CHECK(cuda::groups_but(sizes, taken, 120) == groups{15});
  CHECK(cuda::groups_but(sizes, taken, 121).empty());
  taken[0] = taken[3] = taken[15] = true;
  CHECK(cuda::groups_but(sizes, taken, 16) == groups{2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14});
  CHECK(cuda::groups_but(sizes, taken, 120).empty());
  CHECK(cuda::groups_but({}, {}, 0).empty());
}

std::set<std::uint16_t> sms_seen(const driven_cuda& d, std::size_t from) {
  std::set<std::uint16_t> sms;
  for (std::size_t i = from; i < d.events.size(); ++i)
    if (d.events[i].what == device_event::kind::blocks_started) sms.insert(d.events[i].sm);
  return sms;
}

TEST_CASE("a lane with SMs of its own runs its graphs only there") {
  GSCHED_NEEDS_GPU();
  // Each round makes a new device: the SMs of the previous one are free again.
  for (int round = 0; round < 2; ++round) {
    cuda::program p = stand_ins("p", 5, kernel_of(400, 256, 20));
    cuda::device_options o;
    o.instrumented = true;
    o.group_blocks = 1; // so that each block's SM is reported
    driven_cuda d(o);
    const lane_id one = d.device.open_lane({0, sm_count{1}});
    d.device.load(p);
    const lane_id two = d.device.open_lane({1, sm_count{20}});
    const lane_id all = d.device.open_lane({});
    CHECK(d.device.sms_of(one).count() >= 1);
    CHECK(d.device.sms_of(one).count() <= 16);
    CHECK(d.device.sms_of(two).count() >= 20);
    CHECK(d.device.sms_of(all) == d.device.limits().sms);
    for (const lane_id lane : {one, two, all, one}) {
      const std::size_t from = d.events.size();
      CHECK(!d.submit(lane, p.host(), 0, p.host().cut(0, from_us(100)), true));
      REQUIRE(d.finish());
      const std::set<std::uint16_t> sms = sms_seen(d, from);
      CHECK(!sms.empty());
      CHECK(sms.size() <= d.device.sms_of(lane).count());
      if (lane == all) CHECK(sms.size() > d.device.sms_of(two).count());
    }
    CHECK(d.device.statistics().built_late == 0);
    CHECK_THROWS_WITH_AS(static_cast<void>(d.device.open_lane({0, d.device.limits().sms})),
                         doctest::Contains("expected at most what is left"), error);
    static_cast<void>(d.device.open_lane({})); // the refused lane left no trace
    CHECK(!d.submit(all, p.host()));
    REQUIRE(d.finish());
  }
}

TEST_CASE("partitions are disjoint: a full one does not delay another one") {
  GSCHED_NEEDS_GPU();
  driven_cuda d;
  const lane_id a = d.device.open_lane({0, sm_count{8}});
  const lane_id b = d.device.open_lane({0, sm_count{8}});
  const std::uint32_t fills = 2 * d.device.sms_of(a).count(); // two blocks of 1024 fill an SM
  cuda::program slow = stand_ins("slow", 1, kernel_of(fills, 1024, 5000));
  cuda::program quick = stand_ins("quick", 1, kernel_of(fills, 1024, 50));
  d.device.load(slow);
  d.device.load(quick);
  for (int round = 0; round < 3; ++round) {
    d.events.clear();
    CHECK(!d.submit(a, slow.host()));
    CHECK(!d.submit(b, quick.host()));
    REQUIRE(d.finish());
    REQUIRE(d.events.size() == 2);
    CHECK(index(d.events.front().segment) % 2 == 1); // the quick one, submitted later
  }
  for (int i = 0; i < 40; ++i) {
    CHECK(!d.submit(i % 2 == 0 ? a : b, quick.host()));
    CHECK(!d.submit(i % 2 == 0 ? b : a, quick.host()));
  }
  REQUIRE(d.finish());
  CHECK(d.failed == 0);
}

TEST_CASE("partitions of named groups overlap others, and are destroyed independently") {
  GSCHED_NEEDS_GPU();
  const groups sizes = cuda::group_sizes(0);
  REQUIRE(sizes.size() >= 4);
  const cuda::partition all(0, cuda::find_gpu(0).sms);
  {
    const cuda::partition next(0, groups{0, 2}), other(0, groups{2, 3});
    CHECK(next.sms() == sm_count{sizes[0] + sizes[2]});
    CHECK(next.context() != other.context());
  }
  CHECK_THROWS_AS(cuda::partition(0, sm_count{8}), error); // still taken
  CHECK_THROWS_WITH_AS(cuda::partition(0, groups{}), doctest::Contains("no groups"), error);
  CHECK_THROWS_WITH_AS(cuda::partition(0, groups{1, 1}), doctest::Contains("twice"), error);
  CHECK_THROWS_AS(cuda::partition(0, groups{1000}), error);
}

TEST_CASE("lanes that reserve SMs share graphs, only of programs with long kernels") {
  GSCHED_NEEDS_GPU();
  cuda::program quick = stand_ins("quick", 5, kernel_of(400, 256, 20));
  cuda::program slow = stand_ins("slow", 5, kernel_of(400, 256, 300));
  driven_cuda d;
  d.device.load(quick);
  const lane_options how{0, {}, true, sm_count{16}, from_us(100)};
  const lane_id one = d.device.open_lane(how);
  d.device.load(slow);
  const std::uint64_t graphs = d.device.memory_of(slow.host()).graphs;
  CHECK(graphs > 0);
  CHECK(d.device.memory_of(quick.host()).graphs == 0);
  const lane_id two = d.device.open_lane(how);
  CHECK(d.device.memory_of(slow.host()).graphs == graphs);
  CHECK(d.device.sms_of(one) == d.device.sms_of(two));
  CHECK(d.device.sms_of(one).count() + 16 <= d.device.limits().sms.count());
  for (const lane_id lane : {one, two}) {
    CHECK(!d.submit(lane, slow.host(), 0, slow.host().cut(0, from_us(300))));
    REQUIRE(d.finish());
  }
  CHECK(d.device.statistics().built_late == 0);
  CHECK(!d.submit(one, quick.host(), 0, quick.host().cut(0, from_us(100))));
  REQUIRE(d.finish());
  CHECK(d.device.statistics().built_late == 1);
  CHECK(d.failed == 0);
  CHECK_THROWS_WITH_AS(static_cast<void>(d.device.open_lane({0, sm_count{64}})),
                       doctest::Contains("expected at most what is left"), error);
}

TEST_CASE("a program kept whole is built only for the lane with SMs of its own that prepares it") {
  GSCHED_NEEDS_GPU();
  driven_cuda d;
  const groups first{0}, both{0, 1};
  const lane_id one = d.device.open_lane({}, first);
  const lane_id two = d.device.open_lane({}, both);
  CHECK(d.device.sms_of(one).count() < d.device.sms_of(two).count());
  cuda::program p = stand_ins("p", 5, kernel_of(16, 256, 20));
  p.host().keep_whole();
  d.device.load(p);
  CHECK(d.device.memory_of(p.host()).graphs == 0);
  d.device.prepare(p.host(), two);
  CHECK(d.device.memory_of(p.host()).graphs == 1);
  CHECK(!d.submit(two, p.host()));
  REQUIRE(d.finish());
  CHECK(d.device.statistics().built_late == 0);
  CHECK(!d.submit(one, p.host()));
  REQUIRE(d.finish());
  CHECK(d.device.statistics().built_late == 1);
  CHECK_THROWS_AS(d.device.prepare(p.host(), lane_id{9}), error);
}

} // namespace
} // namespace gsched::testing
