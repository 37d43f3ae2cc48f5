// SPDX-License-Identifier: Apache-2.0
#include <gsched/occupancy/limits.hpp>

#include <gsched/core/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

using namespace gsched;

namespace {

/// NVIDIA's published figures, written out once more by hand.
struct published {
  std::uint32_t major, minor, warps, blocks, shared_kib, opt_in_kib;
};
constexpr std::array<published, 14> table{{
    {7, 0, 64, 32, 96, 96},
    {7, 2, 64, 32, 96, 96},
    {7, 5, 32, 16, 64, 64},
    {8, 0, 64, 32, 164, 163},
    {8, 6, 48, 16, 100, 99},
    {8, 7, 48, 16, 164, 163},
    {8, 9, 48, 24, 100, 99},
    {9, 0, 64, 32, 228, 227},
    {10, 0, 64, 32, 228, 227},
    {10, 1, 48, 24, 228, 227},
    {10, 3, 64, 32, 228, 227},
    {11, 0, 48, 24, 228, 227},
    {12, 0, 48, 24, 100, 99},
    {12, 1, 48, 24, 100, 99},
}};

} // namespace

TEST_CASE("every capability from 7.0 on has its published limits") {
  for (const published& row : table) {
    CAPTURE(row.major);
    CAPTURE(row.minor);
    const architecture_limits l = limits_for(row.major, row.minor);
    CHECK(l.major == row.major);
    CHECK(l.minor == row.minor);
    CHECK(l.max_warps == row.warps);
    CHECK(l.max_threads == row.warps * 32);
    CHECK(l.max_blocks == row.blocks);
    CHECK(l.registers == 65536);
    CHECK(l.max_registers_per_block == 65536);
    CHECK(l.shared_bytes == row.shared_kib * 1024);
    CHECK(l.max_shared_per_block == row.opt_in_kib * 1024);
    CHECK(l.reserved_shared_bytes == (row.major >= 8 ? 1024 : 0));
    CHECK((l.max_cluster_blocks > 0) == (row.major >= 9));
    CHECK(std::is_sorted(l.shared_splits.begin(), l.shared_splits.end()));
    CHECK(l.shared_splits[l.shared_splits.size() - 1] == l.shared_bytes);
  }
}

TEST_CASE("the splits of an SM's memory are those of its generation") {
  const auto splits = [](std::uint32_t major, std::uint32_t minor) {
    std::string text;
    for (const std::uint32_t s : limits_for(major, minor).shared_splits)
      text += std::to_string(s / 1024) + " ";
    return text;
  };
  CHECK(splits(7, 0) == "0 8 16 32 64 96 ");
  CHECK(splits(7, 5) == "32 64 ");
  CHECK(splits(8, 0) == "0 8 16 32 64 100 132 164 ");
  CHECK(splits(8, 6) == "0 8 16 32 64 100 ");
  CHECK(splits(9, 0) == "0 8 16 32 64 100 132 164 196 228 ");
  CHECK(splits(12, 0) == "0 8 16 32 64 100 ");
}

TEST_CASE("a capability that is not known is an error in one line, not a guess") {
  for (const auto& [major, minor] : {std::pair{6u, 1u}, {7u, 1u}, {9u, 1u}, {13u, 0u}, {0u, 0u}})
    CHECK_THROWS_AS(static_cast<void>(limits_for(major, minor)), error);
  std::string line;
  try {
    static_cast<void>(limits_for(9, 1));
  } catch (const error& e) {
    CHECK((e.code() == errc::unknown_name));
    line = e.what();
  }
  CHECK(line == "compute capability 9.1: not known, expected one from 7.0 to 12.1");
}
