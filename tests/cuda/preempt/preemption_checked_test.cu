// SPDX-License-Identifier: Apache-2.0
#define GSCHED_PREEMPT_CHECK
#include "preemption_kernels.hpp"

#include <gsched/cuda/preempt/preempt.cuh>

namespace gsched::testing {
namespace {

using cuda::make_preemptible;
using cuda::preemptible_launch;
using cuda::preemption;
using cuda::preemption_end;
using cuda::tenant;

constexpr unsigned threads = 96;

// The tests expect the line of each checkpoint, by __LINE__.
struct line {
  unsigned first;
  unsigned second;
};

constexpr line of_half{__LINE__ + 4, 0};
__global__ void half_a_warp(preemption p, std::uint32_t* out) {
  GSCHED_PREEMPTIBLE(p);
  for (int i = 0; i < 4; ++i)
    if (threadIdx.x % 32 < 16) GSCHED_CHECKPOINT();
  atomicAdd(out, 1u);
}

constexpr line of_warp{__LINE__ + 4, 0};
__global__ void one_warp(preemption p, std::uint32_t* out) {
  GSCHED_PREEMPTIBLE(p);
  for (int i = 0; i < 4; ++i) {
    if (threadIdx.x >= 32) GSCHED_SYNC_CHECKPOINT();
    if (i == 3) atomicAdd(out, 1u);
  }
}

constexpr line of_two{__LINE__ + 5, __LINE__ + 7};
__global__ void one_or_the_other(preemption p, std::uint32_t* out) {
  GSCHED_PREEMPTIBLE(p);
  for (unsigned i = 0; i < 4; ++i)
    if ((threadIdx.x + i) % 2 == 0)
      GSCHED_CHECKPOINT();
    else
      GSCHED_CHECKPOINT();
  atomicAdd(out, 1u);
}

constexpr line of_return{__LINE__ + 4, 0};
__global__ void after_a_return(preemption p, std::uint32_t* out) {
  GSCHED_PREEMPTIBLE(p);
  if (atomicAdd(out, 1u) == ~0u || threadIdx.x == 40) return;
  GSCHED_CHECKPOINT();
}

__global__ void together(preemption p, std::uint32_t* out) {
  GSCHED_PREEMPTIBLE(p);
  for (int i = 0; i < 20'000; ++i) {
    if (blockIdx.x % 2 == 0) GSCHED_CHECKPOINT();
    GSCHED_SYNC_CHECKPOINT();
  }
  atomicAdd(out, 1u);
}

preemption_end outcome(void (*kernel)(preemption, std::uint32_t*), words& out) {
  const tenant who;
  stream_of_test on;
  cuda::call_shape shape;
  shape.grid = 8;
  shape.block = threads;
  preemptible_launch launch =
      make_preemptible(who, "checked", shape, kernel, preemption::at_checkpoints(), out.get());
  REQUIRE(!launch.start(on.stream));
  return launch.wait();
}

TEST_CASE("a checkpoint that not all threads reach is reported by line, and the kernel ends") {
  GSCHED_NEEDS_GPU();
  const auto check = [](void (*kernel)(preemption, std::uint32_t*), line where) {
    words out(1);
    const preemption_end e = outcome(kernel, out);
    CHECK(e.what == end_kind::divergent);
    CHECK(e.operations == 0);
    CHECK((e.line == where.first || e.line == where.second));
    CHECK(out.read()[0] == 8 * threads);
  };
  SUBCASE("half of each warp") { check(half_a_warp, of_half); }
  SUBCASE("two warps of three") { check(one_warp, of_warp); }
  SUBCASE("at different ones") { check(one_or_the_other, of_two); }
  SUBCASE("one has returned") { check(after_a_return, of_return); }
}

TEST_CASE("checked checkpoints that all threads reach act like others") {
  GSCHED_NEEDS_GPU();
  tenant who;
  stream_of_test on;
  words out(1);
  cuda::call_shape shape;
  shape.grid = 8;
  shape.block = threads;
  preemptible_launch launch =
      make_preemptible(who, "together", shape, together, preemption::at_checkpoints(), out.get());
  REQUIRE(!launch.start(on.stream));
  spin_for(std::chrono::microseconds{100});
  REQUIRE(!who.preempt());
  CHECK(launch.wait().what == end_kind::preempted);
  CHECK(out.read()[0] == 0);
  REQUIRE(!who.let_run(on.stream));
  REQUIRE(!launch.resume(on.stream));
  CHECK(launch.wait().what == end_kind::ended);
  CHECK(out.read()[0] == 8 * threads);
}

} // namespace
} // namespace gsched::testing
