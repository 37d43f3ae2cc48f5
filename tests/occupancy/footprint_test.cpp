// SPDX-License-Identifier: Apache-2.0
#include "occupancy/launches.hpp"

#include <gsched/occupancy/footprint.hpp>

#include <gsched/core/error.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/program_footprint.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace gsched;
using namespace gsched::testing;

namespace {

constexpr sm_count all{132};

operation kernel(std::uint32_t blocks, std::uint32_t threads, double us) {
  operation op;
  op.launch.grid.x = blocks;
  op.launch.block.x = threads;
  op.launch.registers_per_thread = 32;
  op.expected = from_us(us);
  return op;
}

operation copy(double us) {
  operation op;
  op.kind = operation_kind::memcpy;
  op.expected = from_us(us);
  return op;
}

} // namespace

TEST_CASE("fill and waves count the blocks against what the SMs hold at once") {
  const kernel_demand d = demand_of(hopper, kernel(132, 1024, 1).launch);
  CHECK(d.max_blocks_per_sm == 2);
  CHECK(d.threads == 1024);
  CHECK(d.registers == 32 * 1024);
  CHECK(d.shared_bytes == 1024);
  CHECK(fill_of(d, all) == 0.5);
  CHECK(waves_of(d, all) == 1);
  CHECK(fill_of(d, sm_count{33}) == 1.0);
  CHECK(waves_of(d, sm_count{33}) == 2);
  CHECK(waves_of(demand_of(hopper, kernel(265, 1024, 1).launch), all) == 2);
  CHECK(fill_of(demand_of(hopper, kernel(1, 32, 1).launch), all) == 1.0 / (32 * 132));
}

TEST_CASE("the driver's count wins over the calculator's") {
  CHECK(demand_of(hopper, kernel(8, 256, 1).launch, 3).max_blocks_per_sm == 3);
  CHECK(demand_of(hopper, kernel(8, 256, 1).launch, 0).max_blocks_per_sm == 8);
  CHECK(demand_of(hopper, kernel(8, 256, 1).launch, 99).max_blocks_per_sm == 32);
}

TEST_CASE("a kernel that the driver has counted fits, and asks for no more than an SM has") {
  operation op = kernel(8, 512, 1);
  op.launch.dynamic_shared_bytes = 300 * 1024;
  CHECK(demand_of(hopper, op.launch).max_blocks_per_sm == 0);
  op.max_blocks_per_sm = 1;
  const kernel_demand d = demand_of(hopper, op.launch, op.max_blocks_per_sm);
  CHECK(d.max_blocks_per_sm == 1);
  CHECK(d.blocks == 8);
  CHECK(d.shared_bytes == hopper.shared_bytes);
  const program p("trained", {op});
  CHECK(program_footprint(hopper, all, p).range(0, 1).blocks == 8);
}

TEST_CASE("what fits nowhere, and what is no kernel, asks for no blocks") {
  CHECK(demand_of(hopper, kernel(8, 2000, 1).launch) == kernel_demand{});
  CHECK(fill_of(kernel_demand{}, all) == 0.0);
  CHECK(waves_of(kernel_demand{}, all) == 0);
  const footprint f = footprint_of(hopper, all, copy(5));
  CHECK(f.time == from_us(5));
  CHECK(f.fill == 0.0);
  CHECK(f.blocks == 0);
  CHECK(f.words == 0);
}

TEST_CASE("a segment's fill is the mean over its time, its peak that of the widest kernel") {
  const program p("p",
                  {kernel(132, 1024, 30), copy(10), kernel(264, 1024, 20), kernel(1, 1024, 40)});
  const program_footprint pf(hopper, all, p);
  const footprint f = pf.range(0, 4);
  CHECK(f.time == from_us(100));
  CHECK(f.fill == doctest::Approx((0.5 * 30 + 1.0 * 20 + 40.0 / 264) / 100));
  CHECK(f.peak == 1.0);
  CHECK(f.widest == pf.kernel(2));
  CHECK(f.blocks == 397);
  CHECK(f.words == words_of(132) + words_of(264) + words_of(1));
  CHECK(pf.range(0, 2).fill == doctest::Approx(0.375));
  CHECK(pf.range(0, 2).peak == 0.5);
  CHECK(pf.range(1, 2).fill == 0.0);
  CHECK(pf.range(1, 2).widest.blocks == 0);
  CHECK(pf.range(2, 2).time == duration::zero());
}

TEST_CASE("where no time is known the fill is the plain mean") {
  const program p("p", {kernel(132, 1024, 0), kernel(264, 1024, 0)});
  CHECK(program_footprint(hopper, all, p).range(0, 2).fill == doctest::Approx(0.75));
}

TEST_CASE("any range agrees with adding up its operations") {
  std::mt19937_64 random(3);
  std::vector<operation> ops;
  for (int i = 0; i < 61; ++i) {
    const auto blocks = static_cast<std::uint32_t>(1 + random() % 3000);
    const auto threads = static_cast<std::uint32_t>(1 + random() % 1024);
    const double us = static_cast<double>(random() % 1000) / 100;
    ops.push_back(random() % 8 == 0 ? copy(us) : kernel(blocks, threads, us));
  }
  const program p("p", ops);
  const program_footprint pf(hopper, all, p);
  for (std::size_t first = 0; first < ops.size(); ++first)
    for (std::size_t last = first + 1; last <= ops.size(); ++last) {
      footprint sum;
      double busy = 0;
      for (std::size_t i = first; i < last; ++i) {
        const footprint one = footprint_of(hopper, all, ops[i]);
        sum.time += one.time;
        sum.blocks += one.blocks;
        sum.words += one.words;
        sum.peak = std::max(sum.peak, one.peak);
        busy += one.fill * static_cast<double>(one.time.count());
      }
      const footprint f = pf.range(first, last);
      REQUIRE(f.time == sum.time);
      REQUIRE(f.blocks == sum.blocks);
      REQUIRE(f.words == sum.words);
      REQUIRE(f.peak == sum.peak);
      REQUIRE(fill_of(f.widest, all) == sum.peak);
      REQUIRE(f.fill <= f.peak);
      if (sum.time > duration::zero())
        REQUIRE(f.fill ==
                doctest::Approx(busy / static_cast<double>(sum.time.count())).epsilon(1e-9));
    }
}

TEST_CASE("a program with a kernel that fits on no SM is refused by name and place") {
  const program p("model", {kernel(1, 32, 1), kernel(1, 1025, 1)});
  std::string line;
  try {
    const program_footprint pf(hopper, all, p);
  } catch (const error& e) {
    CHECK((e.code() == errc::does_not_fit));
    line = e.what();
  }
  CHECK(line == "model: operation 1: block of 1025x1x1 threads, expected 1 to 1024 in all, at most "
                "1024x1024x64");
  CHECK_THROWS_AS(program_footprint(hopper, sm_count{0}, p), error);
}
