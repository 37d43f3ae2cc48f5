// SPDX-License-Identifier: Apache-2.0
//
// Kernels with checkpoints that overwrite their own input. If their accesses are known, they are
// preempted only between blocks.
#include "cuda/device/device_yield_storm.hpp"
#include "cuda/graph/program_kernels.cuh"
#include "cuda/needs_gpu.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/preempt/preempt.cuh>
#include <gsched/preempt/access.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace gsched::testing {
namespace {

constexpr int block_threads = 128;
constexpr int grid = arena::row; ///< one word for each block
constexpr word steps = 20;
constexpr int pairs = 6; ///< of kernels

/// A block that restarts reads its own former output.
template <bool Later>
__global__ void step_by_step(cuda::preemption p, word* in_out, word salt) {
#define GSCHED_TEST_BODY                                                                           \
  volatile word* const mine = in_out + gsched_block.x;                                             \
  for (word k = 0; k < steps; ++k) {                                                               \
    if (threadIdx.x == 0) *mine = mixed(*mine, k, salt);                                           \
    __syncwarp();                                                                                  \
    GSCHED_CHECKPOINT();                                                                           \
  }
  if constexpr (Later) {
    GSCHED_PREEMPTIBLE_LATER(p);
    GSCHED_TEST_BODY
  } else {
    GSCHED_PREEMPTIBLE(p);
    GSCHED_TEST_BODY
  }
#undef GSCHED_TEST_BODY
}

/// The same, but a block saves its progress.
__global__ void saving_steps(cuda::preemption p, word* in_out, word* passes, word salt) {
  GSCHED_PREEMPTIBLE(p);
  const unsigned b = gsched_block.x;
  volatile word* const mine = in_out + b;
  word k = GSCHED_RESUMED() ? passes[b] : 0;
  for (; k < steps; ++k) {
    if (threadIdx.x == 0) *mine = mixed(*mine, k, salt);
    __syncwarp();
    GSCHED_CHECKPOINT(if (threadIdx.x == 0) passes[b] = k + 1);
  }
  __syncthreads(); // all threads have read it
  if (threadIdx.x == 0) passes[b] = 0;
}

/// One word of output for each block, which may restart.
__global__ void gather(cuda::preemption p, const word* in, word* out, int size, word salt) {
  GSCHED_PREEMPTIBLE(p);
  const int i = static_cast<int>(gsched_block.x);
  word x = in[i % size];
  for (int k = 0; k < static_cast<int>(steps); ++k) {
    x = mixed(x, in[(i * 7 + k * 61) % size], salt);
    GSCHED_CHECKPOINT();
  }
  if (threadIdx.x == 0) out[i] = x;
}

enum class sort { at_once, later, saving };

/// Pairs of kernels: one overwrites its input, the other one does not.
cuda::program make_pairs(std::string name, const arena& on, sort which, const access_trace* told) {
  cuda::program_options how;
  how.name = std::move(name);
  how.accesses = told;
  return cuda::capture(how, [&](cudaStream_t s) {
    const cuda::preemption may = cuda::preemption::at_checkpoints();
    for (int i = 0; i < pairs; ++i) {
      const auto salt = static_cast<word>(i);
      word* const row = on.at(i % 3);
      if (which == sort::at_once)
        step_by_step<false><<<grid, block_threads, 0, s>>>(may, row, salt);
      if (which == sort::later) step_by_step<true><<<grid, block_threads, 0, s>>>(may, row, salt);
      if (which == sort::saving)
        saving_steps<<<grid, block_threads, 0, s>>>(may, row, on.at(4), salt);
      gather<<<grid, block_threads, 0, s>>>(may, row, on.at((i + 1) % 3), arena::row, salt);
    }
  });
}

/// The accesses of these pairs.
access_trace accesses_of_pairs(const arena& on, sort which) {
  const auto row = [&](int r) {
    const auto first = reinterpret_cast<std::uint64_t>(on.at(r));
    return access_set({{first, first + arena::row_bytes}});
  };
  access_trace t;
  for (int i = 0; i < pairs; ++i) {
    operation_access clobbers;
    clobbers.name = "in_place";
    clobbers.reads = clobbers.writes = row(i % 3);
    if (which == sort::saving) clobbers.says = declared::saves;
    operation_access gathers;
    gathers.reads = row(i % 3);
    gathers.writes = row((i + 1) % 3);
    t.operations.push_back(clobbers);
    t.operations.push_back(gathers);
  }
  return t;
}

auto told(sort which) {
  return [which](std::string name, const arena& on) {
    const access_trace t = accesses_of_pairs(on, which);
    return make_pairs(std::move(name), on, which, &t);
  };
}

TEST_CASE("kernels known to overwrite their input are preempted between blocks, and listed") {
  GSCHED_NEEDS_GPU();
  for (const sort which : {sort::at_once, sort::later}) {
    const bool later = which == sort::later;
    CAPTURE(later);
    arena memory;
    const cuda::program p = told(which)("p", memory);
    CHECK(p.is_preemptible());
    REQUIRE(p.restricted().size() == pairs);
    for (std::size_t i = 0; i < pairs; ++i) {
      const preemptibility_restriction& r = p.restricted()[i];
      CHECK(r.operation == 2 * i);
      const std::string line = "operation " + std::to_string(2 * i) +
                               ", in_place: overwrites its input, " +
                               std::to_string(arena::row_bytes) + " bytes at 0x";
      CHECK(r.why.substr(0, line.size()) == line);
      CHECK(p.host().operations()[2 * i].preemptible == preemptibility::between_blocks);
      CHECK(p.captured_preemption(2 * i).preemptible == preemptibility::between_blocks);
      CHECK(p.host().operations()[2 * i + 1].preemptible == preemptibility::at_checkpoints);
      CHECK(p.captured_preemption(2 * i + 1).preemptible == preemptibility::at_checkpoints);
    }
    for (const std::uint64_t seed : {50u, 51u}) {
      const storm_outcome o = stop_and_go(told(which), 2, seed);
      CHECK(o.same);
      CHECK(o.statistics.preempted > yields_wanted() / 10);
      CHECK(o.statistics.gates == 0);
    }
  }
}

TEST_CASE("without known accesses, kernels that overwrite their input corrupt it when preempted") {
  GSCHED_NEEDS_GPU();
  const storm_outcome o = stop_and_go(
      [](std::string name, const arena& on) {
        cuda::program p = make_pairs(std::move(name), on, sort::at_once, nullptr);
        CHECK(p.restricted().empty());
        return p;
      },
      2, 52);
  CHECK(!o.same);
}

TEST_CASE(
    "kernels whose blocks save their progress are preempted at checkpoints and resume there") {
  GSCHED_NEEDS_GPU();
  arena memory;
  const cuda::program p = told(sort::saving)("p", memory);
  CHECK(p.restricted().empty());
  for (const operation& op : p.host().operations())
    CHECK(op.preemptible == preemptibility::at_checkpoints);
  const storm_outcome o = stop_and_go(told(sort::saving), 2, 53);
  CHECK(o.same);
  CHECK(o.statistics.preempted > yields_wanted() / 10);
}

TEST_CASE("a program refuses the accesses of another program") {
  GSCHED_NEEDS_GPU();
  arena memory;
  access_trace t = accesses_of_pairs(memory, sort::at_once);
  t.operations.pop_back();
  CHECK_THROWS_WITH_AS(static_cast<void>(make_pairs("net", memory, sort::at_once, &t)),
                       "graph net: accesses of 11 operations, expected 12, one for each operation",
                       error);
  t.operations.emplace_back().kind = operation_kind::memcpy;
  CHECK_THROWS_WITH_AS(static_cast<void>(make_pairs("net", memory, sort::at_once, &t)),
                       "graph net: operation 11 is of another kind than its accesses, expected "
                       "those of this program",
                       error);
}

} // namespace
} // namespace gsched::testing
