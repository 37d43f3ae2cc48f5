// SPDX-License-Identifier: Apache-2.0
#include <gsched/sim/detail/laws/graph_law.hpp>
#include <gsched/sim/detail/laws/scaling.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

using namespace gsched;

constexpr sm_count whole_device{132};

operation scaled_kernel(std::uint32_t blocks, std::uint32_t threads, double us) {
  operation op;
  op.launch.grid = {blocks, 1, 1};
  op.launch.block = {threads, 1, 1};
  op.expected = from_us(us);
  return op;
}

operation measured(operation op, std::vector<scaling_point> points) {
  for (const scaling_point& p : points) op.by_sms.push_back(p);
  return op;
}

/// Shapes of all kinds: one block, a partial wave, many waves, full blocks, one block an SM.
struct sample {
  operation op;
  std::uint32_t per_sm;
};
std::vector<sample> samples() {
  std::vector<sample> all_of_them;
  for (const std::uint32_t blocks : {1u, 7u, 64u, 131u, 132u, 133u, 500u, 2112u, 25088u, 401408u})
    for (const std::uint32_t threads : {1u, 64u, 128u, 1024u})
      for (const std::uint32_t per_sm : {1u, 2u, 16u, 32u})
        for (const double us : {0.7, 2.0, 40.0, 900.0})
          all_of_them.push_back({scaled_kernel(blocks, threads, us), per_sm});
  return all_of_them;
}

} // namespace

TEST_CASE("scaling: more SMs never take longer where nothing was measured") {
  for (const sample& s : samples()) {
    const sim::scaling_table t(s.op, whole_device, s.per_sm);
    for (std::uint32_t n = 2; n <= whole_device.count(); ++n)
      REQUIRE(t.at(sm_count{n}) <= t.at(sm_count{n - 1}));
  }
}

TEST_CASE("scaling: all SMs take what the profile says, one takes at most the sum of all") {
  for (const sample& s : samples()) {
    const sim::scaling_table t(s.op, whole_device, s.per_sm);
    CHECK(t.at(whole_device) == s.op.expected);
    CHECK(t.whole() == s.op.expected);
    CHECK(t.floor() <= s.op.expected);
    // A block alone on an SM is at most a few times as fast as one among many.
    CHECK(to_us(t.at(sm_count{1})) <= 132 * 5 * to_us(s.op.expected));
  }
}

TEST_CASE("scaling: a single block does not care how many SMs there are") {
  const sim::scaling_table t(scaled_kernel(1, 128, 20), whole_device, 16);
  CHECK(t.at(sm_count{1}) == t.at(whole_device));
}

TEST_CASE("scaling: many waves of a kernel scale nearly as SMs, a bare launch not at all") {
  const sim::scaling_table big(scaled_kernel(25088, 128, 500), whole_device, 16);
  const double factor = to_us(big.at(sm_count{33})) / to_us(big.at(whole_device));
  CHECK(factor > 2.5); // less than 4: few SMs have all of L2 and DRAM
  CHECK(factor < 4.0);

  const sim::scaling_table small(scaled_kernel(64, 128, 1.5), whole_device, 16);
  CHECK(to_us(small.at(sm_count{66})) < 1.1 * 1.5);
}

TEST_CASE("scaling: measured points are met exactly") {
  const operation op = measured(scaled_kernel(3136, 256, 7.072), {{sm_count{8}, from_us(69.247)},
                                                                  {sm_count{16}, from_us(37.025)},
                                                                  {sm_count{32}, from_us(19.52)},
                                                                  {sm_count{64}, from_us(11.04)}});
  const sim::scaling_table t(op, whole_device, 8);
  for (const scaling_point& p : op.by_sms) CHECK(t.at(p.sms) == p.time);
  CHECK(t.at(whole_device) == op.expected);
}

TEST_CASE("scaling: between two points the time stays between theirs, also where they rise") {
  for (sample s : samples()) {
    const double us = to_us(s.op.expected);
    for (const std::uint32_t cluster : {1u, 8u}) {
      s.op.launch.cluster_blocks = cluster;
      const operation op = measured(
          s.op, {{sm_count{8}, from_us(us * 9)},
                 {sm_count{32}, from_us(us * 2)},
                 {sm_count{64}, from_us(us * 0.9)}}); // 64 SMs a little faster than all: noise
      const sim::scaling_table t(op, whole_device, s.per_sm);
      for (std::uint32_t n = 9; n < 132; ++n) {
        const std::uint32_t a = n < 32 ? 8 : n < 64 ? 32 : 64;
        const std::uint32_t b = n < 32 ? 32 : n < 64 ? 64 : 132;
        const auto [least, most] = std::minmax({t.at(sm_count{a}), t.at(sm_count{b})});
        REQUIRE(t.at(sm_count{n}) >= least);
        REQUIRE(t.at(sm_count{n}) <= most);
      }
    }
  }
}

TEST_CASE("scaling: whole blocks make steps, clusters do not") {
  // 120 blocks, one an SM: 64 to 119 SMs need two rounds, 120 and more need one.
  operation op = measured(scaled_kernel(120, 384, 100), {{sm_count{64}, from_us(200)}});
  const sim::scaling_table steps(op, whole_device, 1);
  CHECK(steps.at(sm_count{119}) == from_us(200));
  CHECK(steps.at(sm_count{120}) == from_us(100));
  op.launch.cluster_blocks = 8;
  const sim::scaling_table smooth(op, whole_device, 1);
  CHECK(smooth.at(sm_count{96}) < from_us(200));
  CHECK(smooth.at(sm_count{96}) > from_us(100));
}

TEST_CASE("scaling: below the smallest point the curve goes on") {
  const operation op = measured(scaled_kernel(6272, 128, 10), {{sm_count{8}, from_us(400)}});
  const sim::scaling_table t(op, whole_device, 16);
  CHECK(t.at(sm_count{4}) > from_us(1.6 * 400));
  CHECK(t.at(sm_count{4}) < from_us(2.1 * 400));
}

TEST_CASE("scaling: a copy takes the same time everywhere unless it was measured") {
  operation op;
  op.kind = operation_kind::memset;
  op.expected = from_us(0.8);
  const sim::scaling_table t(op, whole_device, 0);
  CHECK(t.at(sm_count{1}) == from_us(0.8));
  op.by_sms.push_back({sm_count{8}, from_us(1.6)});
  CHECK(sim::scaling_table(op, whole_device, 0).at(sm_count{8}) == from_us(1.6));
}

TEST_CASE("scaling: a kernel that the dispatcher holds back takes no longer on fewer SMs, until "
          "these do") {
  const auto us = 100.0;
  const auto table = [&](std::uint32_t threads, double use) {
    operation op;
    op.launch.grid = {static_cast<std::uint32_t>(use * us * replay_law::blocks_per_us), 1, 1};
    op.launch.block = {threads, 1, 1};
    op.expected = from_us(us);
    return sim::scaling_table(op, sm_count{132}, 32);
  };
  const sim::scaling_table held = table(32, 1);
  CHECK(held.by_dispatcher());
  CHECK(held.at(sm_count{132}) == from_us(us));
  CHECK(held.at(sm_count{83}) == from_us(us));
  CHECK(held.at(sm_count{40}).count() ==
        doctest::Approx(1e3 * us * 83 / 40).epsilon(0.001)); // 1660 over 20 a microsecond
  CHECK_FALSE(table(64, 1).by_dispatcher());
  CHECK_FALSE(table(32, 0.5).by_dispatcher());
}

TEST_CASE("scaling: odd input stays within bounds") {
  const sim::scaling_table nothing(scaled_kernel(10, 128, 0), whole_device, 4);
  CHECK(nothing.at(sm_count{8}) == duration::zero());

  const sim::scaling_table t(scaled_kernel(264, 128, 10), whole_device,
                             0); // count unknown: one an SM
  CHECK(t.at(sm_count{0}) == t.at(sm_count{1}));
  CHECK(t.at(sm_count{500}) == t.whole());

  // A point beyond the device, a duplicate, and one of no time are ignored.
  const sim::scaling_table odd(
      measured(scaled_kernel(264, 128, 10), {{sm_count{8}, from_us(90)},
                                             {sm_count{8}, from_us(1)},
                                             {sm_count{32}, duration::zero()},
                                             {sm_count{400}, from_us(1)}}),
      whole_device, 4);
  CHECK(odd.at(sm_count{8}) == from_us(90));
  CHECK(odd.whole() == from_us(10));

  // Measured on partitions only: the last point is used beyond it.
  const sim::scaling_table part(measured(scaled_kernel(264, 128, 0), {{sm_count{8}, from_us(90)}}),
                                whole_device, 4);
  CHECK(part.whole() == from_us(90));

  CHECK(sim::scaling_table(scaled_kernel(1, 32, 5), sm_count{0}, 1).whole() == from_us(5));
}

TEST_CASE("graph law: a graph's time from its operations") {
  const sim::graph_law law;
  CHECK(law.replay(duration::zero(), 0) == duration::zero());
  CHECK(law.replay(from_us(100), 1) == law.operation(from_us(100)));
  CHECK(law.replay(from_us(100), 11) - law.replay(from_us(100), 10) == law.gap);
  CHECK(to_us(law.replay(from_us(1000), 301)) == doctest::Approx(986 + 300 * 0.34));
}
