// SPDX-License-Identifier: Apache-2.0
//
// Programs that are loaded and unloaded while others run; ends of segments behind programmatic
// edges; kernels whose limits changed.
#include "cuda/device/device_driven.hpp"
#include "cuda/graph/program_kernels.cuh"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/program.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace gsched::testing {
namespace {

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "";
}

/// Lets the next kernel start at once, and ends long after it.
__global__ void long_before(volatile int* ended) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  std::uint64_t from, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(from)::"memory");
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
  while (now - from < 500'000);
  *ended = 1;
}
__global__ void soon_after(int* sink) {
  if (sink != nullptr && threadIdx.x > 1024) *sink = 1;
}

__global__ void large(word* out) {
  extern __shared__ word mine[];
  mine[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = mine[blockDim.x - 1 - threadIdx.x];
}

TEST_CASE("programs are built on another thread, loaded, unloaded and loaded again") {
  GSCHED_NEEDS_GPU();
  cuda::device_options o;
  o.whole = true;
  driven_cuda d(o);
  const lane_id lane = d.device.open_lane({});
  const lane_id low = d.device.open_lane({0, {}, true});
  cuda::program busy = stand_ins("busy", 20, kernel_of(66, 128, 10));
  d.device.load(busy);
  std::deque<cuda::program> programs;
  for (int i = 0; i < 4; ++i)
    programs.push_back(stand_ins("program " + std::to_string(i), 200, kernel_of(66, 128, 5)));
  const std::uint64_t gates = d.device.statistics().gates;
  for (int round = 0; round < 3; ++round) {
    for (cuda::program& p : programs) {
      std::atomic<bool> built{false};
      cuda::program_graphs graphs;
      std::thread builder([&] {
        graphs = d.device.build(p.host());
        built = true;
      });
      while (!built) {
        REQUIRE(!d.submit(lane, busy.host()));
        REQUIRE(d.finish());
      }
      builder.join();
      d.device.load(p.host(), std::move(graphs));
    }
    const lane_id later = d.device.open_lane({1, {}}); // needs graphs of the programs built below
    for (cuda::program& p : programs)
      for (const lane_id to : {lane, low, later}) REQUIRE(!d.submit(to, p.host()));
    CHECK(refusal([&] {
            static_cast<void>(d.device.unload(programs[0].host()));
          }).find("in flight") != std::string::npos);
    REQUIRE(d.finish());
    CHECK(d.device.statistics().gates > gates);
    for (cuda::program& p : programs) {
      cuda::program_graphs gone = d.device.unload(p.host());
      CHECK(p.host().id() == no_program);
      std::thread([old = std::move(gone)] {}).join(); // destroyed on that thread
    }
    CHECK(d.device.statistics().gates == gates);
    CHECK(refusal([&] { static_cast<void>(d.device.unload(programs[0].host())); }) ==
          "program 0: not loaded, expected it to be");
    REQUIRE(!d.submit(lane, busy.host()));
    REQUIRE(d.finish());
  }
  CHECK(d.failed == 0);
  CHECK(d.device.statistics().built_late == 0);
}

TEST_CASE("a kernel behind a programmatic edge that ends first does not end the segment") {
  GSCHED_NEEDS_GPU();
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  if (major < 9) return;
  int* ended = nullptr;
  REQUIRE(cudaMallocHost(&ended, sizeof(int)) == cudaSuccess);
  cuda::stream_capture c("early end");
  long_before<<<1, 32, 0, c.stream()>>>(ended);
  cudaLaunchAttribute with{};
  with.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  with.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t how{};
  how.gridDim = 1;
  how.blockDim = 32;
  how.stream = c.stream();
  how.attrs = &with;
  how.numAttrs = 1;
  cuda::check(cudaLaunchKernelEx(&how, soon_after, static_cast<int*>(nullptr)), "launch");
  cuda::program_options named;
  named.name = "early end";
  named.measure = false;
  cuda::program p(c.end(), named);
  driven_cuda d;
  d.device.load(p);
  for (const bool yields : {false, true}) {
    const lane_id lane = d.device.open_lane({0, {}, yields});
    for (int i = 0; i < 5; ++i) {
      *ended = 0;
      REQUIRE(!d.submit(lane, p.host()));
      REQUIRE(d.finish());
      CHECK(*static_cast<volatile int*>(ended) == 1);
    }
  }
  cudaFreeHost(ended);
}

TEST_CASE("a kernel whose limits were lowered after its capture is accepted") {
  GSCHED_NEEDS_GPU();
  word* out = nullptr;
  REQUIRE(cudaMalloc(&out, 512 * sizeof(word)) == cudaSuccess);
  constexpr int bytes = 60'000;
  REQUIRE(cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) ==
          cudaSuccess);
  cuda::stream_capture c("lowered");
  for (int i = 0; i < 3; ++i) large<<<1, 512, bytes, c.stream()>>>(out);
  const cudaGraph_t g = c.end();
  REQUIRE(cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024) ==
          cudaSuccess);
  cuda::program_options named;
  named.name = "lowered";
  cuda::program p(g, named);
  CHECK(p.host().operations()[0].max_blocks_per_sm >= 1);
  driven_cuda d;
  d.device.load(p);
  const lane_id lane = d.device.open_lane({0, {}, true});
  REQUIRE(!d.submit(lane, p.host(), 0, 2));
  REQUIRE(!d.submit(lane, p.host(), 2, 3));
  CHECK(d.finish());
  CHECK(d.failed == 0);
  cudaFree(out);
}

} // namespace
} // namespace gsched::testing
