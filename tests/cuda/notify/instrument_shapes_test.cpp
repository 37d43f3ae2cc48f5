// SPDX-License-Identifier: Apache-2.0
#include "instrument_rig.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace gsched;
using testing::body;
using testing::rig;
using testing::shape;

/// The kernel's output equals the plain one's, and its words are complete, in order, and unique.
void runs_and_reports(rig& r, shape s, const std::string& what) {
  CAPTURE(what);
  s.instrumented = false;
  const std::vector<std::uint32_t> plain = r.result(s, {}, what.c_str());
  s.instrumented = true;
  CHECK(r.result(s, {}, what.c_str()) == plain); // with reporting disabled
  CHECK(r.book.words == 0);
  std::uint64_t words = 0;
  for (const std::uint32_t group : {0u, 1u, 2u, 7u, 16u}) {
    CAPTURE(group);
    const cuda::launch_slot slot = r.slot_for(s, group);
    for (const bool again : {false, true}) {
      CAPTURE(again);
      static_cast<void>(r.ring.count_launch(slot));
      CHECK(r.result(s, r.ring.report_of(slot), what.c_str()) == plain);
      words += r.ring.words_of(slot, s.blocks());
      CHECK(r.book.words == words);
    }
    CHECK(r.book.launches_of(slot) == 2);
    r.ring.give_back(slot);
  }
  CHECK(r.book.clean());
  CHECK(r.ring.reader().counts().intact());
  r.book.words = 0;
}

shape of(body how, dim3 grid, dim3 block, std::uint32_t argument = 5) {
  shape s;
  s.how = how;
  s.grid = grid;
  s.block = block;
  s.argument = argument;
  return s;
}

} // namespace

TEST_CASE("instrumented kernels of all grids and blocks report each block") {
  GSCHED_NEEDS_GPU();
  rig r(std::size_t{1} << 17);
  for (const unsigned blocks : {1u, 2u, 15u, 16u, 17u, 112u, 1000u, 40'000u})
    for (const unsigned threads : {1u, 31u, 32u, 33u, 256u, 1000u, 1024u}) {
      if (std::uint64_t{blocks} * threads > 11'000'000) continue;
      runs_and_reports(r, of(body::straight, blocks, threads),
                       std::to_string(blocks) + " blocks of " + std::to_string(threads));
    }
  runs_and_reports(r, of(body::straight, {9, 8, 7}, {4, 3, 5}), "3-D");
  runs_and_reports(r, of(body::straight, {1, 3, 200}, {1, 16, 64}), "3-D, deep");
}

TEST_CASE("threads may return at any point") {
  GSCHED_NEEDS_GPU();
  rig r(std::size_t{1} << 14);
  for (const unsigned threads : {1u, 7u, 32u, 40u, 97u, 128u, 1024u})
    for (const unsigned blocks : {1u, 3u, 200u, 2000u}) {
      const std::string size = std::to_string(blocks) + " x " + std::to_string(threads);
      runs_and_reports(r, of(body::scattered_return, blocks, threads), "scattered " + size);
      runs_and_reports(r, of(body::warps_return, blocks, threads), "warps " + size);
      runs_and_reports(r, of(body::first_returns, blocks, threads), "first " + size);
      runs_and_reports(r, of(body::loop_return, blocks, threads), "loop " + size);
    }
}

TEST_CASE("instrumentation does not change dynamic shared memory") {
  GSCHED_NEEDS_GPU();
  rig r(std::size_t{1} << 14);
  int most = 0;
  cuda::check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), "limit");
  for (const std::size_t bytes :
       {std::size_t{4}, std::size_t{1} << 14, static_cast<std::size_t>(most) - 1024}) {
    shape s = of(body::shared, 500, 128, static_cast<std::uint32_t>(bytes / 4));
    s.dynamic_bytes = bytes;
    runs_and_reports(r, s, std::to_string(bytes) + " bytes");
  }
}

TEST_CASE("blocks of clusters are reported like others") {
  GSCHED_NEEDS_GPU();
  rig r(std::size_t{1} << 14);
  int major = 0;
  cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "capability");
  if (major < 9) {
    MESSAGE("no clusters on this GPU: passed over");
    return;
  }
  for (const unsigned cluster : {2u, 4u, 8u}) {
    shape s = of(body::cluster, {cluster * 60, 2, 1}, 96);
    s.cluster = cluster;
    runs_and_reports(r, s, "clusters of " + std::to_string(cluster));
  }
}

TEST_CASE("each block of a grid of more than a million is reported") {
  GSCHED_NEEDS_GPU();
  rig r(std::size_t{1} << 22);
  runs_and_reports(r, of(body::straight, {100, 100, 100}, 1), "10^6 blocks");
  runs_and_reports(r, of(body::straight, 1'048'579, 32), "2^20 + 3 blocks");
}
