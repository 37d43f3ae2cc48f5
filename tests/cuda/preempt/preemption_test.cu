// SPDX-License-Identifier: Apache-2.0
#include "preemption_kernels.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/notify/instrument.cuh>
#include <gsched/cuda/notify/notification_ring.hpp>
#include <gsched/cuda/preempt/preempt.cuh>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

namespace gsched::testing {
namespace {

using cuda::make_preemptible;
using cuda::preemptible_launch;
using cuda::preemption;
using cuda::preemption_end;
using cuda::tenant;

constexpr unsigned block_threads = 64;

/// Where blocks record that they have begun and ended, and save their progress.
struct books {
  std::uint32_t* begun;
  std::uint32_t* ended;
  std::uint32_t* passes;
  std::uint32_t* sums;
  std::uint32_t* running; ///< in pinned memory: set to 1 when a block begins; may be null
};

__device__ std::uint32_t index_of(const uint3& block) {
  return block.x + gridDim.x * (block.y + gridDim.y * block.z);
}

__device__ void count(std::uint32_t* where) {
  if (threadIdx.x == 0) atomicAdd(where, 1u);
}

/// About a microsecond. The shift prevents the compiler from folding the steps.
__device__ std::uint32_t work(std::uint32_t sum, std::uint32_t pass) {
  for (unsigned i = 0; i < 100; ++i) sum = (sum ^ (sum >> 13)) * 1664525u + pass;
  return sum;
}

__device__ void save(const books& b, std::uint32_t block, std::uint32_t passes, std::uint32_t sum) {
  b.sums[block * blockDim.x + threadIdx.x] = sum;
  if (threadIdx.x == 0) b.passes[block] = passes;
}

/// Resumes from its saved progress; no work is done twice.
template <bool Later>
__global__ void saving(preemption p, books b, std::uint32_t passes, std::uint32_t* out) {
#define GSCHED_TEST_BODY                                                                           \
  const std::uint32_t block = index_of(gsched_block);                                              \
  const std::uint32_t at = block * blockDim.x + threadIdx.x;                                       \
  std::uint32_t sum = GSCHED_RESUMED() ? b.sums[at] : at;                                          \
  std::uint32_t i = GSCHED_RESUMED() ? b.passes[block] : 0;                                        \
  for (; i < passes; ++i) {                                                                        \
    sum = work(sum, i);                                                                            \
    GSCHED_CHECKPOINT(save(b, block, i + 1, sum));                                                 \
  }                                                                                                \
  out[at] = sum;                                                                                   \
  count(b.ended + block);
  if constexpr (Later) {
    GSCHED_PREEMPTIBLE_LATER(p);
    GSCHED_TEST_BODY
  } else {
    GSCHED_PREEMPTIBLE(p);
    count(b.begun + index_of(gsched_block));
    GSCHED_TEST_BODY
  }
#undef GSCHED_TEST_BODY
}

/// Restarts. Its last step must run once, and in all warps or none.
__global__ void starting_anew(preemption p, books b, std::uint32_t passes, std::uint32_t* out) {
  GSCHED_PREEMPTIBLE(p);
  const std::uint32_t block = index_of(gsched_block);
  const std::uint32_t at = block * blockDim.x + threadIdx.x;
  std::uint32_t sum = at;
  for (std::uint32_t i = 0; i < passes; ++i) {
    sum = work(sum, i);
    GSCHED_CHECKPOINT_EVERY(3);
    if (i % 8 == 0) GSCHED_SYNC_CHECKPOINT();
  }
  GSCHED_SYNC_CHECKPOINT();
  out[at] = sum;
  count(b.ended + block);
}

/// Overwrites its input, so that no block may run twice.
__global__ void in_place(preemption p, books b, std::uint32_t passes, std::uint32_t* out) {
  GSCHED_PREEMPTIBLE(p);
  const std::uint32_t block = index_of(gsched_block);
  const std::uint32_t at = block * blockDim.x + threadIdx.x;
  count(b.begun + block);
  if (threadIdx.x == 0) *static_cast<volatile std::uint32_t*>(b.running) = 1;
  for (std::uint32_t i = 0; i < passes; ++i) out[at] = work(out[at] + at, i);
  count(b.ended + block);
}

__global__ void reporting_blocks(cuda::report to, preemption p, std::uint32_t passes,
                                 std::uint32_t* out) {
  GSCHED_INSTRUMENT(to);
  GSCHED_PREEMPTIBLE(p);
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < passes; ++i) {
    sum = work(sum, i);
    GSCHED_CHECKPOINT();
  }
  out[gsched_block.x * blockDim.x + threadIdx.x] = sum + gsched_block.x;
}

struct kernel {
  const char* name;
  void (*function)(preemption, books, std::uint32_t, std::uint32_t*);
  preemption how;
};
const std::array kernels{
    kernel{"saving", saving<false>, preemption::at_checkpoints()},
    kernel{"saving, later", saving<true>, preemption::at_checkpoints()},
    kernel{"starting anew", starting_anew, preemption::at_checkpoints()},
    kernel{"in place", in_place, preemption::between_blocks()},
};

/// A kernel, its memory, and a launch of it.
struct rig {
  tenant who;
  stream_of_test on;
  dim3 grid;
  std::size_t blocks;
  words begun, ended, passes, sums, out;
  shared_word running;
  preemptible_launch launch;

  rig(const kernel& k, dim3 g, std::uint32_t n)
      : grid(g), blocks(std::size_t{g.x} * g.y * g.z), begun(blocks), ended(blocks), passes(blocks),
        sums(blocks * block_threads), out(blocks * block_threads),
        launch(make_preemptible(who, k.name, shape(), k.function, k.how, all(), n, out.get())) {
    cuda::check(cudaDeviceSynchronize(), "rig");
  }
  [[nodiscard]] cuda::call_shape shape() const {
    cuda::call_shape s;
    s.grid = grid;
    s.block = block_threads;
    return s;
  }
  [[nodiscard]] books all() const {
    return {begun.get(), ended.get(), passes.get(), sums.get(), running.get()};
  }
  [[nodiscard]] bool resume() { return !who.let_run(on.stream) && !launch.resume(on.stream); }
};

constexpr dim3 grid_of_test{50, 9, 20}; // more blocks than a GPU holds at once
/// The cycles of a block, some hundred microseconds: blocks of later waves have not begun when a
/// flag arrives that is set as soon as the first ones run.
constexpr dim3 several_rounds{30'000};
constexpr std::uint32_t passes_of_a_round = 100;

TEST_CASE("a preemptible kernel that is not preempted runs all of its blocks") {
  GSCHED_NEEDS_GPU();
  for (const kernel& k : kernels) {
    CAPTURE(k.name);
    rig r(k, grid_of_test, 20);
    for (std::uint32_t round = 1; round <= 3; ++round) {
      REQUIRE(!r.launch.start(r.on.stream));
      CHECK(r.launch.wait().what == end_kind::ended);
      const auto ended = r.ended.read();
      CHECK(std::count(ended.begin(), ended.end(), round) == static_cast<long>(r.blocks));
    }
  }
}

TEST_CASE("with the flag set before its start, a kernel runs no block, and all when resumed") {
  GSCHED_NEEDS_GPU();
  for (const kernel& k : kernels) {
    CAPTURE(k.name);
    rig whole(k, grid_of_test, 20);
    REQUIRE(!whole.launch.start(whole.on.stream));
    REQUIRE(whole.launch.wait().what == end_kind::ended);
    rig r(k, grid_of_test, 20);
    REQUIRE(!r.who.preempt());
    cuda::check(cudaDeviceSynchronize(), "flag");
    REQUIRE(!r.launch.start(r.on.stream));
    const preemption_end first = r.launch.wait();
    CHECK(first.what == end_kind::preempted);
    CHECK(first.operations == 0);
    for (const words* w : {&r.begun, &r.ended, &r.passes}) {
      const auto all = w->read();
      CHECK(std::count(all.begin(), all.end(), 0u) == static_cast<long>(r.blocks));
    }
    REQUIRE(r.resume());
    CHECK(r.launch.wait().what == end_kind::ended);
    CHECK(r.out.read() == whole.out.read());
    const auto ended = r.ended.read();
    CHECK(std::count(ended.begin(), ended.end(), 1u) == static_cast<long>(r.blocks));
  }
}

TEST_CASE("a kernel that is preempted repeatedly ends each block once, with the same output") {
  GSCHED_NEEDS_GPU();
  for (const kernel& k : kernels) {
    CAPTURE(k.name);
    constexpr std::uint32_t passes = 200;
    rig whole(k, grid_of_test, passes);
    REQUIRE(!whole.launch.start(whole.on.stream));
    REQUIRE(whole.launch.wait().what == end_kind::ended);
    rig r(k, grid_of_test, passes);
    REQUIRE(!r.launch.start(r.on.stream));
    unsigned left = 0;
    for (unsigned turn = 0;; ++turn) {
      REQUIRE(turn < 10'000);
      // Kernels that restart would never end if they were preempted at this rate for ever.
      if (turn < 6) {
        spin_for(std::chrono::microseconds{10 + 15 * turn});
        REQUIRE(!r.who.preempt());
      }
      const preemption_end e = r.launch.wait();
      if (e.what == end_kind::ended) break;
      REQUIRE(e.what == end_kind::preempted);
      ++left;
      REQUIRE(r.resume());
    }
    CHECK(left >= 1);
    CHECK(r.out.read() == whole.out.read());
    const auto ended = r.ended.read();
    CHECK(std::count(ended.begin(), ended.end(), 1u) == static_cast<long>(r.blocks));
  }
}

TEST_CASE("blocks of a kernel that is preempted between blocks begin once") {
  GSCHED_NEEDS_GPU();
  rig r(kernels[3], several_rounds, passes_of_a_round);
  REQUIRE(!r.launch.start(r.on.stream));
  REQUIRE(r.running.await());
  REQUIRE(!r.who.preempt());
  CHECK(r.launch.wait().what == end_kind::preempted);
  const auto first = r.begun.read();
  CHECK(std::count(first.begin(), first.end(), 1u) > 0);
  CHECK(std::count(first.begin(), first.end(), 0u) > 0);
  CHECK(first == r.ended.read()); // blocks that had begun have ended, the others were preempted
  REQUIRE(r.resume());
  CHECK(r.launch.wait().what == end_kind::ended);
  const auto begun = r.begun.read();
  CHECK(std::count(begun.begin(), begun.end(), 1u) == static_cast<long>(r.blocks));
}

TEST_CASE("tenants have independent flags") {
  GSCHED_NEEDS_GPU();
  rig a(kernels[0], dim3(66), 4000);
  rig b(kernels[0], dim3(66), 4000);
  REQUIRE(!a.launch.start(a.on.stream));
  REQUIRE(!b.launch.start(b.on.stream));
  spin_for(std::chrono::microseconds{50});
  REQUIRE(!a.who.preempt());
  CHECK(a.launch.wait().what == end_kind::preempted);
  CHECK(b.launch.poll().what == end_kind::running);
  CHECK(b.launch.wait().what == end_kind::ended);
  REQUIRE(a.resume());
  CHECK(a.launch.wait().what == end_kind::ended);
}

TEST_CASE("reset discards the remaining blocks") {
  GSCHED_NEEDS_GPU();
  rig r(kernels[3], several_rounds, passes_of_a_round);
  REQUIRE(!r.launch.start(r.on.stream));
  REQUIRE(r.running.await());
  REQUIRE(!r.who.preempt());
  REQUIRE(r.launch.wait().what == end_kind::preempted);
  const auto before = r.ended.read();
  const std::uint64_t rerun = r.launch.reset();
  REQUIRE(r.resume()); // no blocks remain, so all blocks run
  CHECK(r.launch.wait().what == end_kind::ended);
  const auto after = r.ended.read();
  const auto sum = [](const auto& v) { return std::accumulate(v.begin(), v.end(), 0u); };
  CHECK(sum(after) == sum(before) + several_rounds.x);
  CHECK(rerun == sum(before)); // they have ended twice
  CHECK(rerun == static_cast<std::uint64_t>(std::count(after.begin(), after.end(), 2u)));
  CHECK(rerun > 0);
  CHECK(r.launch.reset() == 0); // of a kernel that has ended
}

TEST_CASE("a kernel with dependent blocks is refused, and one that is not preemptible") {
  GSCHED_NEEDS_GPU();
  const tenant who;
  words out(block_threads);
  cuda::call_shape shape;
  shape.grid = 4;
  shape.block = block_threads;
  const auto line_of = [&](const preemption& how, const cuda::call_shape& s, bool cooperative) {
    preemption p = how;
    books none{};
    std::uint32_t passes = 1;
    std::uint32_t* at = out.get();
    void* arguments[] = {&p, &none, &passes, &at};
    const cuda::detail::call_graph graph("k", reinterpret_cast<const void*>(&in_place), s,
                                         arguments);
    std::size_t n = 1;
    cudaGraphNode_t node = nullptr;
    cuda::check(cudaGraphGetNodes(graph.get(), &node, &n), "node");
    cudaKernelNodeAttrValue v{};
    v.cooperative = 1;
    if (cooperative)
      cuda::check(cudaGraphKernelNodeSetAttribute(node, cudaKernelNodeAttributeCooperative, &v),
                  "cooperative");
    try {
      const preemptible_launch made(who, "k", graph.get());
    } catch (const error& e) {
      return std::string(e.what());
    }
    return std::string("made");
  };
  CHECK(line_of(preemption::between_blocks(), shape, false) == "made");
  CHECK(line_of(preemption::between_blocks(), shape, true) ==
        "kernel k: a preemptible kernel with a grid barrier (a cooperative launch), expected one "
        "whose "
        "blocks are independent");
  CHECK(line_of(preemption{}, shape, false).find("kernel k: not preemptible, expected") == 0);
  if (cuda::find_gpu(0).sm.major < 9) return;
  shape.cluster = 2;
  CHECK(line_of(preemption::at_checkpoints(), shape, false) ==
        "kernel k: a preemptible kernel in clusters of 2 blocks, expected one whose blocks are "
        "independent");
}

TEST_CASE("every block of an instrumented launch reports, also preempted blocks and empty ones") {
  GSCHED_NEEDS_GPU();
  for (const std::uint32_t group : {1u, 16u}) {
    constexpr unsigned blocks = 3001;
    tenant who;
    stream_of_test on;
    cuda::notification_ring ring(0, 1 << 14);
    const cuda::launch_slot slot = ring.take_slot(group);
    words out(blocks * block_threads);
    cuda::call_shape shape;
    shape.grid = blocks;
    shape.block = block_threads;
    preemptible_launch launch =
        make_preemptible(who, "reporting", shape, reporting_blocks, ring.report_of(slot),
                         preemption::at_checkpoints(), 200u, out.get());
    REQUIRE(!launch.start(on.stream));
    unsigned left = 0;
    for (unsigned turn = 0;; ++turn) {
      static_cast<void>(ring.count_launch(slot));
      if (turn < 3) {
        spin_for(std::chrono::microseconds{20});
        REQUIRE(!who.preempt());
      }
      const preemption_end e = launch.wait();
      unsigned started = 0;
      unsigned ended = 0;
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{1};
      while (ended < blocks && std::chrono::steady_clock::now() < until)
        ring.reader().drain([&](const notification& n) {
          (n.type == notification_type::blocks_started ? started : ended) += n.blocks;
        });
      CHECK(started == blocks);
      CHECK(ended == blocks);
      if (e.what == end_kind::ended) break;
      ++left;
      REQUIRE(!who.let_run(on.stream));
      REQUIRE(!launch.resume(on.stream));
    }
    CHECK(left >= 1);
    const auto all = out.read();
    bool good = true;
    for (std::size_t i = 0; i < all.size(); ++i) good &= all[i] == all[0] + i / block_threads;
    CHECK(good);
  }
}

} // namespace
} // namespace gsched::testing
