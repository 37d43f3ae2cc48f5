// SPDX-License-Identifier: Apache-2.0
#include "occupancy/launches.hpp"

#include <gsched/occupancy/calculator.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

using namespace gsched;
using namespace gsched::testing;

namespace {

struct known {
  std::uint32_t major, minor, threads, registers, dynamic, carveout;
  std::uint32_t blocks;
};

/// Results of the occupancy calculator of CUDA 13.0 for random launches.
constexpr std::array<known, 75> from_the_toolkit{{
    {7, 0, 192, 61, 11232, 100, 5},   {7, 0, 406, 33, 0, 100, 3},
    {7, 0, 83, 25, 0, 100, 21},       {7, 0, 106, 113, 0, 50, 4},
    {7, 0, 224, 100, 60656, 0, 1},    {7, 2, 60, 19, 12968, 100, 7},
    {7, 2, 82, 99, 20515, 100, 4},    {7, 2, 416, 112, 56316, 100, 1},
    {7, 2, 224, 60, 78481, 50, 1},    {7, 2, 416, 74, 6267, 0, 1},
    {7, 5, 192, 108, 0, 100, 2},      {7, 5, 128, 105, 0, 100, 4},
    {7, 5, 136, 65, 0, 100, 5},       {7, 5, 664, 20, 0, 50, 1},
    {7, 5, 308, 96, 10685, 0, 2},     {8, 0, 480, 18, 17800, 100, 4},
    {8, 0, 96, 101, 0, 100, 5},       {8, 0, 256, 35, 0, 100, 6},
    {8, 0, 687, 29, 1396, 50, 2},     {8, 0, 256, 32, 0, 0, 8},
    {8, 6, 64, 67, 22498, 100, 4},    {8, 6, 224, 102, 17133, 100, 2},
    {8, 6, 284, 36, 96385, 100, 1},   {8, 6, 224, 27, 47911, 50, 1},
    {8, 6, 160, 32, 17897, 0, 1},     {8, 7, 580, 35, 10767, 100, 2},
    {8, 7, 690, 77, 0, 100, 1},       {8, 7, 503, 105, 56534, 100, 1},
    {8, 7, 64, 78, 0, 50, 12},        {8, 7, 448, 30, 122271, 0, 1},
    {8, 8, 381, 59, 65170, 100, 1},   {8, 8, 37, 84, 20613, 100, 4},
    {8, 8, 296, 24, 11459, 100, 4},   {8, 8, 677, 39, 0, 50, 2},
    {8, 8, 192, 97, 56276, 0, 1},     {8, 9, 276, 96, 51654, 100, 1},
    {8, 9, 64, 86, 11276, 100, 8},    {8, 9, 68, 71, 0, 100, 9},
    {8, 9, 160, 69, 0, 50, 5},        {8, 9, 96, 93, 80044, 0, 1},
    {9, 0, 128, 75, 128055, 100, 1},  {9, 0, 192, 68, 8463, 100, 4},
    {9, 0, 480, 82, 146994, 100, 1},  {9, 0, 352, 26, 3425, 50, 5},
    {9, 0, 448, 86, 138471, 0, 1},    {10, 0, 326, 33, 131771, 100, 1},
    {10, 0, 320, 62, 159938, 100, 1}, {10, 0, 128, 100, 0, 100, 4},
    {10, 0, 384, 104, 0, 50, 1},      {10, 0, 64, 43, 194095, 0, 1},
    {10, 1, 247, 103, 4892, 100, 2},  {10, 1, 329, 44, 0, 100, 3},
    {10, 1, 41, 76, 42719, 100, 5},   {10, 1, 224, 60, 12548, 50, 4},
    {10, 1, 256, 22, 0, 0, 6},        {10, 3, 512, 113, 18926, 100, 1},
    {10, 3, 84, 85, 8402, 100, 6},    {10, 3, 434, 113, 17252, 100, 1},
    {10, 3, 448, 97, 48722, 50, 1},   {10, 3, 224, 56, 0, 0, 5},
    {11, 0, 152, 65, 0, 100, 5},      {11, 0, 160, 41, 173249, 100, 1},
    {11, 0, 337, 99, 0, 100, 1},      {11, 0, 75, 39, 8458, 50, 14},
    {11, 0, 512, 100, 64849, 0, 1},   {12, 0, 120, 36, 79174, 100, 1},
    {12, 0, 352, 73, 2278, 100, 2},   {12, 0, 288, 51, 0, 100, 4},
    {12, 0, 132, 106, 0, 50, 3},      {12, 0, 386, 29, 10799, 0, 1},
    {12, 1, 671, 52, 0, 100, 1},      {12, 1, 224, 64, 14093, 100, 4},
    {12, 1, 352, 87, 3666, 100, 1},   {12, 1, 96, 110, 7428, 50, 5},
    {12, 1, 512, 61, 0, 0, 2},
}};

} // namespace

TEST_CASE("the driver's own count for every kernel that was measured") {
  std::size_t kernels = 0;
  const std::filesystem::path folder{GSCHED_SOURCE_DIR "/tools/data/profiles"};
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".json") continue;
    CAPTURE(file.path().filename().string());
    std::ifstream in(file.path());
    const nlohmann::json profile = nlohmann::json::parse(in);
    std::size_t place = 0;
    for (const nlohmann::json& op : profile.at("operations")) {
      const std::size_t here = place++;
      if (op.at("kind") != "kernel") continue;
      CAPTURE(here);
      launch_shape s;
      const auto& g = op.at("grid");
      const auto& b = op.at("block");
      s.grid = {g[0].get<std::uint32_t>(), g[1].get<std::uint32_t>(), g[2].get<std::uint32_t>()};
      s.block = {b[0].get<std::uint32_t>(), b[1].get<std::uint32_t>(), b[2].get<std::uint32_t>()};
      op.at("registers_per_thread").get_to(s.registers_per_thread);
      op.at("static_shared_bytes").get_to(s.static_shared_bytes);
      op.at("dynamic_shared_bytes").get_to(s.dynamic_shared_bytes);
      op.at("cluster_blocks").get_to(s.cluster_blocks);
      CHECK(max_blocks_per_sm(hopper, s) == op.at("max_blocks_per_sm").get<std::uint32_t>());
      CHECK(why_not_fit(hopper, s).empty());
      ++kernels;
    }
  }
  CHECK(kernels > 4000);
}

TEST_CASE("the toolkit's count, on every capability, with and without a carve-out") {
  for (const known& k : from_the_toolkit) {
    CAPTURE(k.major);
    CAPTURE(k.minor);
    CAPTURE(k.threads);
    CAPTURE(k.registers);
    CAPTURE(k.dynamic);
    CAPTURE(k.carveout);
    CHECK(max_blocks_per_sm(limits_for(k.major, k.minor), shape(k.threads, k.registers, k.dynamic),
                            carveout{k.carveout}) == k.blocks);
  }
}

TEST_CASE("each resource binds in its turn") {
  const auto by = [](const launch_shape& s) { return occupancy_of(hopper, s); };
  CHECK(by(shape(32, 16, 0)).blocks() == 32); // slots
  CHECK(by(shape(1024, 16, 0)).blocks() == 2);
  CHECK(by(shape(1024, 16, 0)).warps == 2);
  CHECK(by(shape(256, 128, 0)).blocks() == 2);
  CHECK(by(shape(256, 128, 0)).registers == 2);
  CHECK(by(shape(64, 16, 100 * 1024)).blocks() == 2);
  CHECK(by(shape(64, 16, 100 * 1024)).shared == 2);
  CHECK(by(shape(64, 0, 0)).registers == occupancy_by_resource::unlimited);
}

TEST_CASE("registers go to warps in units, and to the part of the SM where the warp runs") {
  // 33 registers are allocated as 40: 1280 a warp, 12 warps in each of four partitions.
  CHECK(occupancy_of(hopper, shape(32, 33, 0)).registers == 48);
  // 168 registers are 5376 a warp, 3 a partition: 12 warps, although 65536 / 5376 is 12.19.
  CHECK(occupancy_of(hopper, shape(384, 168, 0)).registers == 1);
  // 5 warps of 64 registers: 32 warps in all, 6 blocks; the hardware's check rounds to 8 warps.
  CHECK(occupancy_of(hopper, shape(160, 64, 0)).registers == 6);
  CHECK(max_blocks_per_sm(hopper, shape(33, 16, 0)) == 32); // two warps
}

TEST_CASE("the system takes its share of shared memory from each block, since Ampere") {
  CHECK(allocation_of(hopper, shape(32, 16, 0)).shared_bytes == 1024);
  CHECK(allocation_of(hopper, shape(32, 16, 1)).shared_bytes == 1152);
  CHECK(allocation_of(limits_for(7, 0), shape(32, 16, 1)).shared_bytes == 256);
  CHECK(max_blocks_per_sm(hopper, shape(32, 16, 227 * 1024)) == 1);
  CHECK(max_blocks_per_sm(hopper, shape(32, 16, 227 * 1024 + 1)) == 0);
}

TEST_CASE("a carve-out bounds the blocks, but never below one that fits") {
  const launch_shape s = shape(128, 16, 30 * 1024); // 31 KiB with the system's share
  CHECK(max_blocks_per_sm(hopper, s) == 7);
  CHECK(max_blocks_per_sm(hopper, s, carveout{50}) == 4); // 114 KiB, rounded up to 132
  CHECK(max_blocks_per_sm(hopper, s, carveout{0}) == 1);  // 32 KiB, as one block needs
  CHECK(max_blocks_per_sm(hopper, s, carveout{1000}) == 7);
}

TEST_CASE("a launch that fits on no SM says why, in one line") {
  const auto reason = [](auto change, const architecture_limits& l = hopper) {
    launch_shape s = shape(128, 32, 0);
    change(s);
    CHECK_FALSE(fits(l, s));
    CHECK(max_blocks_per_sm(l, s) == 0);
    const std::string line = why_not_fit(l, s);
    CHECK(line.find('\n') == std::string::npos);
    return line;
  };
  CHECK(reason([](launch_shape& s) { s.block.x = 0; }) ==
        "block of 0x1x1 threads, expected 1 to 1024 in all, at most 1024x1024x64");
  CHECK(reason([](launch_shape& s) { s.block = {1024, 2, 1}; }).starts_with("block of 1024x2x1"));
  CHECK(reason([](launch_shape& s) { s.block = {1, 1, 65}; }).starts_with("block of 1x1x65"));
  CHECK(reason([](launch_shape& s) { s.block = {1u << 31, 1u << 31, 4}; }).starts_with("block"));
  CHECK(reason([](launch_shape& s) { s.grid.y = 0; }) ==
        "grid of 1x0x1 blocks, expected 1x1x1 to 2147483647x65535x65535");
  CHECK(reason([](launch_shape& s) { s.grid.z = 65536; }).starts_with("grid of 1x1x65536"));
  CHECK(reason([](launch_shape& s) { s.registers_per_thread = 256; }) ==
        "256 registers a thread, expected at most 255");
  CHECK(reason([](launch_shape& s) {
          s.block.x = 1024;
          s.registers_per_thread = 65;
        }) == "65 registers for each of 1024 threads, expected at most 65536 in all");
  CHECK(reason([](launch_shape& s) { s.static_shared_bytes = 49153; }) ==
        "49153 bytes of static shared memory, expected at most 49152");
  CHECK(reason([](launch_shape& s) { s.dynamic_shared_bytes = 240000; }) ==
        "240000 bytes of shared memory a block, expected at most 232448");
  CHECK(reason([](launch_shape& s) {
          s.static_shared_bytes = 40000;
          s.dynamic_shared_bytes = 0xffffffff;
        }) == "4295007295 bytes of shared memory a block, expected at most 232448");
  CHECK(reason([](launch_shape& s) { s.cluster_blocks = 0; }).starts_with("clusters of 0"));
  CHECK(reason([](launch_shape& s) {
          s.grid.x = 12;
          s.cluster_blocks = 8;
        }) == "clusters of 8 blocks in a grid of 12, expected a divisor of the grid, at most 16");
  CHECK(reason([](launch_shape& s) {
          s.grid.x = 64;
          s.cluster_blocks = 32;
        }).starts_with("clusters of 32"));
  CHECK(reason(
            [](launch_shape& s) {
              s.grid.x = 8;
              s.cluster_blocks = 2;
            },
            limits_for(8, 0)) ==
        "clusters of 2 blocks in a grid of 8, expected a divisor of the grid, at most 1");
}

TEST_CASE("why_not_fit is empty exactly for what fits, over launches of all kinds") {
  for (const architecture_limits& l : {hopper, limits_for(7, 5), limits_for(12, 0)})
    for (std::uint32_t threads = 0; threads <= 1088; threads += 17)
      for (std::uint32_t registers = 0; registers <= 260; registers += 13)
        for (std::uint32_t dynamic = 0; dynamic <= 240'000; dynamic += 30'000) {
          const launch_shape s = shape(threads, registers, dynamic);
          REQUIRE(why_not_fit(l, s).empty() == (max_blocks_per_sm(l, s) > 0));
        }
}
