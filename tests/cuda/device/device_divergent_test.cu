// SPDX-License-Identifier: Apache-2.0
#define GSCHED_PREEMPT_CHECK
#include "cuda/device/device_driven.hpp"
#include "cuda/graph/program_kernels.cuh"
#include "cuda/graph/program_samples.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/preempt/preempt.cuh>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

namespace gsched::testing {
namespace {

constexpr int block_threads = 96;
constexpr int grid = 8;

__global__ void all_together(cuda::preemption p, word* out) {
  GSCHED_PREEMPTIBLE(p);
  for (int i = 0; i < 4; ++i) GSCHED_CHECKPOINT();
  GSCHED_SYNC_CHECKPOINT();
  if (threadIdx.x == 0) out[gsched_block.x] = gsched_block.x;
}

constexpr unsigned line_of_half = __LINE__ + 4; // expected in the device's failure
__global__ void half_of_a_warp(cuda::preemption p, word* out) {
  GSCHED_PREEMPTIBLE(p);
  for (int i = 0; i < 4; ++i)
    if (threadIdx.x % 32 < 16) GSCHED_CHECKPOINT();
  atomicAdd(out + gsched_block.x, 1u);
}

cuda::program make_checked(std::string name, const arena& on, bool divergent) {
  cuda::program_options how;
  how.name = std::move(name);
  how.measure = false; // measuring would run it
  return cuda::capture(how, [&](cudaStream_t s) {
    const cuda::preemption may = cuda::preemption::at_checkpoints();
    all_together<<<grid, block_threads, 0, s>>>(may, on.at(0));
    if (divergent) half_of_a_warp<<<grid, block_threads, 0, s>>>(may, on.at(1));
    all_together<<<grid, block_threads, 0, s>>>(may, on.at(2));
  });
}

TEST_CASE("a checkpoint in divergent code ends the device, which reports its line") {
  GSCHED_NEEDS_GPU();
  arena memory;
  memory.reset();
  const auto before = memory.snapshot();
  cuda::program bad = make_checked("bad", memory, true);
  {
    driven_cuda d;
    const lane_id lane = d.device.open_lane({0, {}, true});
    d.device.load(bad);
    REQUIRE(!d.submit(lane, bad.host()));
    REQUIRE(!d.submit(lane, bad.host()));
    CHECK(d.finish());
    CHECK(d.failed == 2);
    CHECK(d.device.failure().value_or("") ==
          "GPU 0: bad operation 1: checkpoint at line " + std::to_string(line_of_half) +
              " in divergent code, expected one that all threads of a block reach");
    CHECK(d.submit(lane, bad.host()));
  }
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  const auto after = memory.snapshot(); // all blocks ran to their end, once
  for (std::size_t i = 0; i < grid; ++i)
    CHECK(after[arena::row + i] == before[arena::row + i] + block_threads);

  cuda::program good = make_checked("good", memory, false); // the GPU is not affected
  driven_cuda d;
  const lane_id lane = d.device.open_lane({0, {}, true});
  d.device.load(good);
  REQUIRE(!d.submit(lane, good.host()));
  CHECK(d.finish());
  CHECK(d.done == 1);
  CHECK(!d.device.failure());
}

} // namespace
} // namespace gsched::testing
