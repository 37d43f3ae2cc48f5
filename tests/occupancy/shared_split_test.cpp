// SPDX-License-Identifier: Apache-2.0
#include "occupancy/launches.hpp"

#include <gsched/core/launch.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/occupancy/shared_split.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

using namespace gsched;
using namespace gsched::testing;

namespace {

constexpr std::uint32_t kib = 1024;

shared_split split_of(const launch_shape& s) {
  const architecture_limits l = limits_for(9, 0);
  return shared_split_of(l, s, max_blocks_per_sm(l, s));
}

/// Bytes of shared memory of the measured kernels.
constexpr std::array<std::uint32_t, 16> sizes{0,     256,    512,    1024,  2048,  3072,
                                              4096,  8192,   16384,  33000, 49152, 73728,
                                              98304, 131072, 163840, 200000};

/// What gsched.gpu.block_order saw on an H200, in KiB, of kernels of each size. Its smallest split
/// was 8 KiB, told as 0, and what a kernel sets was seen as far as another kernel found room.
struct measured_row {
  std::uint32_t threads, registers;
  std::array<std::uint32_t, sizes.size()> least, seen;
};
constexpr std::array<measured_row, 10> measured{{
    {32,
     32,
     {32, 64, 64, 64, 100, 132, 164, 228, 228, 228, 196, 228, 196, 132, 164, 228},
     {32, 64, 64, 64, 100, 132, 164, 228, 228, 228, 196, 228, 196, 64, 64, 228}},
    {64,
     32,
     {32, 64, 64, 64, 100, 132, 164, 228, 228, 228, 196, 228, 196, 132, 164, 228},
     {32, 64, 64, 64, 100, 132, 164, 228, 228, 228, 196, 228, 196, 64, 64, 228}},
    {128,
     32,
     {16, 32, 32, 32, 64, 64, 100, 164, 228, 228, 196, 228, 196, 132, 164, 228},
     {32, 64, 64, 64, 100, 132, 132, 164, 228, 228, 196, 228, 196, 64, 64, 228}},
    {256,
     32,
     {0, 16, 16, 16, 32, 32, 64, 100, 164, 228, 196, 228, 196, 132, 164, 228},
     {32, 32, 32, 32, 64, 64, 100, 132, 164, 228, 196, 228, 196, 64, 64, 228}},
    {512,
     32,
     {0, 0, 0, 0, 16, 16, 32, 64, 100, 164, 196, 228, 196, 132, 164, 228},
     {0, 0, 0, 0, 32, 32, 64, 100, 132, 164, 196, 228, 196, 64, 64, 228}},
    {1024,
     32,
     {0, 0, 0, 0, 0, 0, 16, 32, 64, 100, 100, 164, 196, 132, 164, 228},
     {0, 0, 0, 0, 0, 0, 0, 32, 64, 100, 100, 164, 196, 64, 64, 228}},
    {32,
     128,
     {16, 32, 32, 32, 64, 64, 100, 164, 228, 228, 196, 228, 196, 132, 164, 228},
     {32, 64, 64, 64, 100, 132, 132, 164, 228, 228, 196, 228, 196, 64, 64, 228}},
    {64,
     128,
     {0, 16, 16, 16, 32, 32, 64, 100, 164, 228, 196, 228, 196, 132, 164, 228},
     {32, 32, 32, 32, 64, 64, 100, 132, 164, 228, 196, 228, 196, 64, 64, 228}},
    {128,
     128,
     {0, 0, 0, 0, 16, 16, 32, 64, 100, 164, 196, 228, 196, 132, 164, 228},
     {32, 0, 0, 0, 32, 32, 64, 100, 132, 164, 196, 228, 196, 64, 64, 228}},
    {256,
     128,
     {0, 0, 0, 0, 0, 0, 16, 32, 64, 100, 100, 164, 196, 132, 164, 228},
     {32, 0, 0, 0, 0, 0, 32, 64, 100, 132, 132, 164, 196, 64, 64, 228}},
}};

} // namespace

TEST_SUITE("split of an SM's memory") {
  TEST_CASE("it is what a GPU showed") {
    // Kernels of 128 threads that were launched beside each: by what they need, the bytes of each.
    struct asking {
      std::uint32_t least, bytes;
    };
    constexpr std::array<asking, 7> asked{
        {{32, 256}, {64, 2048}, {100, 4096}, {132, 6144}, {164, 8192}, {196, 10240}, {228, 12288}}};
    for (const asking& a : asked) CHECK(split_of(shape(128, 32, a.bytes)).least == a.least * kib);
    for (const measured_row& m : measured)
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        CAPTURE(m.threads);
        CAPTURE(m.registers);
        CAPTURE(sizes[i]);
        const launch_shape s = shape(m.threads, m.registers, sizes[i]);
        const shared_split split = split_of(s);
        CHECK((split.least > 8 * kib ? split.least : 0) == m.least[i] * kib);
        const std::uint32_t own = allocation_of(limits_for(9, 0), s).shared_bytes;
        std::uint32_t seen = 0;
        for (const asking& a : asked) {
          if (a.least * kib > split.set || own + a.bytes + kib > split.set) break;
          seen = a.least;
        }
        CHECK(seen == m.seen[i]);
      }
  }

  TEST_CASE("it holds all blocks, and is one that the architecture has") {
    for (const auto& [major, minor] :
         {std::pair{7u, 0u}, {7u, 5u}, {8u, 0u}, {8u, 6u}, {12u, 0u}}) {
      const architecture_limits l = limits_for(major, minor);
      for (std::uint32_t bytes = 0; bytes < l.max_shared_per_block; bytes += 777)
        for (const std::uint32_t threads : {32u, 256u, 1024u}) {
          const launch_shape s = shape(threads, 32, bytes);
          const std::uint32_t held = max_blocks_per_sm(l, s);
          const shared_split split = shared_split_of(l, s, held);
          const auto has = [&](std::uint32_t size) {
            return std::find(l.shared_splits.begin(), l.shared_splits.end(), size) !=
                   l.shared_splits.end();
          };
          REQUIRE(has(split.least));
          REQUIRE(has(split.set));
          REQUIRE(split.set >= split.least);
          REQUIRE(split.least >= held * allocation_of(l, s).shared_bytes);
        }
    }
  }
}
