// SPDX-License-Identifier: Apache-2.0
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/occupancy/calculator.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

namespace gsched {
namespace {

TEST_CASE("a CUDA error code has CUDA's message") {
  const std::error_code e = cuda::code_of(cudaErrorMemoryAllocation);
  CHECK(e.message() == "out of memory (cudaErrorMemoryAllocation)");
  CHECK(cuda::code_of(CUDA_ERROR_OUT_OF_MEMORY) == e);
  CHECK(!cuda::code_of(cudaSuccess));
  try {
    cuda::check(cudaErrorMemoryAllocation, "segment graphs of resnet18");
    FAIL("no error");
  } catch (const error& thrown) {
    CHECK(thrown.code() == errc::out_of_memory);
    CHECK(std::string(thrown.what()) ==
          "segment graphs of resnet18: out of memory (cudaErrorMemoryAllocation)");
  }
}

TEST_CASE("a missing function of the driver is refused by name where it is needed") {
  const auto line_of = [](auto expect, const cuda::driver_functions& f) {
    try {
      expect(f);
    } catch (const error& thrown) {
      CHECK(thrown.code() == errc::no_device);
      return std::string(thrown.what());
    }
    return std::string();
  };
  cuda::driver_functions f;
#define GSCHED_TEST_HAS(name) f.name = reinterpret_cast<decltype(f.name)>(&std::abort);
  GSCHED_CUDA_DRIVER_FUNCTIONS(GSCHED_TEST_HAS)
  CHECK(line_of(cuda::expect_functions, f).empty());
  CHECK(line_of(cuda::expect_partition_functions, f) ==
        "CUDA driver: no cuCtxFromGreenCtx, expected a driver of CUDA 12.5 or later for "
        "partitions");
  GSCHED_CUDA_PARTITION_FUNCTIONS(GSCHED_TEST_HAS)
#undef GSCHED_TEST_HAS
  CHECK(line_of(cuda::expect_partition_functions, f).empty());
  f.cuGreenCtxStreamCreate = nullptr;
  CHECK(line_of(cuda::expect_partition_functions, f).find("no cuGreenCtxStreamCreate") !=
        std::string::npos);
  CHECK(line_of(cuda::expect_functions, f).empty());
  f.cuGraphLaunch = nullptr;
  CHECK(line_of(cuda::expect_functions, f) ==
        "CUDA driver: no cuGraphLaunch, expected a driver of CUDA 13 or later");
}

TEST_CASE("without a GPU, the error is one line") {
  if (testing::gpus_here() > 0) return;
  try {
    static_cast<void>(cuda::find_gpu(0));
    FAIL("no error");
  } catch (const error& thrown) {
    CHECK(thrown.code() == errc::no_device);
    const std::string line = thrown.what();
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.find("driver") != std::string::npos);
  }
}

TEST_CASE("a GPU is found by its number, and unknown numbers are refused") {
  GSCHED_NEEDS_GPU();
  const cuda::gpu g = cuda::find_gpu(0);
  CHECK(!g.name.empty());
  CHECK(g.sms.count() > 0);
  CHECK(g.sm.max_threads >= 1024);
  for (const int wrong : {-1, testing::gpus_here()}) {
    try {
      static_cast<void>(cuda::find_gpu(wrong));
      FAIL("no error");
    } catch (const error& thrown) {
      CHECK(thrown.code() == errc::no_device);
      CHECK(std::string(thrown.what()).find("expected 0 to") != std::string::npos);
    }
  }
}

TEST_CASE("a GPU of an unknown compute capability has the driver's limits") {
  cudaDeviceProp p{};
  p.major = 13;
  p.minor = 7;
  p.maxThreadsPerMultiProcessor = 4096;
  p.warpSize = 32;
  p.maxBlocksPerMultiProcessor = 48;
  p.maxThreadsPerBlock = 2048;
  p.regsPerMultiprocessor = 1 << 17;
  p.regsPerBlock = 1 << 16;
  p.sharedMemPerMultiprocessor = 300 << 10;
  p.reservedSharedMemPerBlock = 2 << 10;
  p.sharedMemPerBlockOptin = 298 << 10;
  p.sharedMemPerBlock = 48 << 10;
  CHECK(!known_limits(13, 7));
  const architecture_limits l = cuda::driver_limits(p, true);
  CHECK(l.major == 13);
  CHECK(l.max_warps == 128);
  CHECK(l.max_cluster_blocks == 8);
  launch_shape s;
  s.grid = {1000};
  s.block = {1024};
  s.registers_per_thread = 32;
  CHECK(max_blocks_per_sm(l, s) == 4); // limited by threads and by registers
  s.dynamic_shared_bytes = 100 << 10;
  CHECK(max_blocks_per_sm(l, s) == 2); // 102 KiB each
}

TEST_CASE("for a known capability, the driver's limits equal those of the table") {
  GSCHED_NEEDS_GPU();
  cudaDeviceProp p{};
  REQUIRE(cudaGetDeviceProperties(&p, 0) == cudaSuccess);
  const auto known =
      known_limits(static_cast<std::uint32_t>(p.major), static_cast<std::uint32_t>(p.minor));
  if (!known) return;
  const architecture_limits l = cuda::driver_limits(p, known->max_cluster_blocks > 0);
  for (const std::uint32_t threads : {32u, 256u, 1024u})
    for (const std::uint32_t registers : {16u, 64u, 255u})
      for (const std::uint32_t shared : {0u, 10'000u, 100'000u}) {
        launch_shape s;
        s.block = {threads};
        s.registers_per_thread = registers;
        s.dynamic_shared_bytes = shared;
        CHECK(max_blocks_per_sm(l, s) == max_blocks_per_sm(*known, s));
      }
}

} // namespace
} // namespace gsched
