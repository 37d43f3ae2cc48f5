// SPDX-License-Identifier: Apache-2.0
#define GSCHED_NO_PREEMPTION
#include "preemption_kernels.hpp"

#include <gsched/cuda/preempt/preempt.cuh>

namespace gsched::testing {
namespace {

using cuda::preemption;

__global__ void off(preemption p, std::uint32_t* out) {
  GSCHED_PREEMPTIBLE(p);
  __shared__ unsigned met;
  if (threadIdx.x == 0) met = gsched_block.y;
  GSCHED_SYNC_CHECKPOINT(out[0] = 99);
  std::uint32_t sum = GSCHED_RESUMED() ? 7 : met;
  for (int i = 0; i < 10; ++i) {
    ++sum;
    GSCHED_CHECKPOINT();
    GSCHED_CHECKPOINT(out[0] = 99);
    GSCHED_CHECKPOINT_EVERY(2, out[0] = 99);
  }
  if (threadIdx.x == 33) out[gsched_block.x + gridDim.x * gsched_block.y] = sum;
}

__global__ void off_later(preemption p, std::uint32_t* out) {
  GSCHED_PREEMPTIBLE_LATER(p);
  GSCHED_CHECKPOINT();
  if (threadIdx.x == 0) out[gsched_block.x + gridDim.x * gsched_block.y] = 10 + gsched_block.y;
}

TEST_CASE("compiled without preemption, a kernel ignores the flag") {
  GSCHED_NEEDS_GPU();
  for (auto* const kernel : {off, off_later}) {
    cuda::tenant who;
    stream_of_test on;
    words out(12);
    cuda::call_shape shape;
    shape.grid = dim3(4, 3);
    shape.block = 64;
    cuda::preemptible_launch launch =
        cuda::make_preemptible(who, "off", shape, kernel, preemption::at_checkpoints(), out.get());
    REQUIRE(!who.preempt());
    cuda::check(cudaDeviceSynchronize(), "flag");
    REQUIRE(!launch.start(on.stream));
    CHECK(launch.wait().what == end_kind::ended);
    const auto all = out.read();
    for (unsigned i = 0; i < 12; ++i) CHECK(all[i] == 10 + i / 4);
  }
}

} // namespace
} // namespace gsched::testing
