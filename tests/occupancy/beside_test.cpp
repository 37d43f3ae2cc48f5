// SPDX-License-Identifier: Apache-2.0
#include "occupancy/launches.hpp"

#include <gsched/occupancy/beside.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>

using namespace gsched;
using namespace gsched::testing;

namespace {

profile_operation kernel(const launch_shape& s) {
  profile_operation o;
  o.work.kind = operation_kind::kernel;
  o.work.launch = s;
  return o;
}

} // namespace

TEST_SUITE("occupancy beside a neighbour") {
  TEST_CASE("a block of nearly all registers waits for one of few") {
    // section 4.2 of the paper: 2048 registers of a sleeping block, and a kernel of 64512
    const architecture_limits l = limits_for(9, 0);
    const launch_shape sleeping = shape(128, 16, 0);
    profile p;
    p.operations = {kernel(shape(384, 168, 0)), kernel(shape(256, 128, 100 * 1024)),
                    kernel(shape(128, 32, 227 * 1024)), kernel(shape(1024, 32, 0))};
    CHECK(max_blocks_beside(l, sleeping, 0, p.operations[0].work.launch) == 1);
    const std::vector<held_kernel> held = kernels_held_up(l, sleeping, 1, p);
    REQUIRE(held.size() == 2);
    CHECK(held[0] == held_kernel{0, "registers"});
    CHECK(held[1] == held_kernel{2, "shared memory"});
  }

  TEST_CASE("beside itself a launch has the places that it leaves") {
    std::mt19937 random(7);
    const auto upto = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    for (const auto& [major, minor] : {std::pair{7u, 5u}, {8u, 0u}, {8u, 9u}, {9u, 0u}}) {
      const architecture_limits l = limits_for(major, minor);
      for (int i = 0; i < 2000; ++i) {
        // whole warps on each partition: other sizes depend on where single warps are placed
        const launch_shape s = shape(128 * (1 + upto(8)), 16 + upto(112), upto(40'000));
        const std::uint32_t all = max_blocks_per_sm(l, s);
        for (std::uint32_t n = 0; n <= all; ++n) {
          CAPTURE(s.block.x);
          CAPTURE(s.registers_per_thread);
          CAPTURE(s.dynamic_shared_bytes);
          CHECK(max_blocks_beside(l, s, n, s) == all - n);
        }
        CHECK(max_blocks_beside(l, s, all + 1, s) == 0);
      }
    }
  }

  TEST_CASE("a larger neighbour never leaves more") {
    std::mt19937 random(11);
    const auto upto = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    const architecture_limits l = limits_for(9, 0);
    for (int i = 0; i < 5000; ++i) {
      const launch_shape s = shape(32 * (1 + upto(32)), 16 + upto(100), upto(100'000));
      const std::uint32_t warps = 1 + upto(16);
      const launch_shape small = shape(32 * warps, 16 + upto(60), upto(50'000));
      launch_shape large = small;
      large.registers_per_thread += upto(40);
      large.dynamic_shared_bytes += upto(40'000);
      CHECK(max_blocks_beside(l, large, 1, s) <= max_blocks_beside(l, small, 1, s));
      CHECK(max_blocks_beside(l, small, 1, s) <= max_blocks_per_sm(l, s));
    }
  }
}
