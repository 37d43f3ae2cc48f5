// SPDX-License-Identifier: Apache-2.0
#include "../../bench/cuda/padding/functions.cuh"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/colocate/pad.cuh>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gsched::testing {
namespace {

using padding::axpy;
using padding::copy;
using padding::gemm;
using padding::softmax;

using family = cuda::pad_family<gemm<32>, copy<2>, softmax<128>, axpy<1>>;
using work = cuda::pad_work<family>;
using corunners = std::span<const work>;

/// A sample of one function: work whose output is compared with that of a plain kernel.
struct sample {
  work padded;
  float* out = nullptr;
  std::vector<float> expected;
};

/// Inputs and outputs of all samples. The grids exceed the GPU and have odd sizes.
class bed {
public:
  static constexpr std::uint32_t values = 1u << 21;

  bed() {
    check(cudaMalloc(&memory_, 6 * sizeof(float) * values));
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    std::vector<float> in(2 * values);
    std::uint32_t x = 1;
    for (float& v : in) {
      x = x * 1664525u + 1013904223u;
      v = static_cast<float>(x >> 8) / static_cast<float>(1u << 24) - 0.5f;
    }
    check(cudaMemcpy(memory_, in.data(), in.size() * sizeof(float), cudaMemcpyHostToDevice));
    const float* const a = memory_;
    const float* const b = memory_ + values;
    add(gemm<32>{a, b, output(0), 256});
    add(copy<2>{reinterpret_cast<const float4*>(a), reinterpret_cast<float4*>(output(1)),
                values / 4 - 3});
    add(softmax<128>{a, output(2), 3000, 500});
    add(axpy<1>{a, b, output(3), values - 5, 1.5f});
  }
  ~bed() {
    cudaStreamDestroy(stream_);
    cudaFree(memory_);
  }
  bed(const bed&) = delete;
  bed& operator=(const bed&) = delete;

  /// Waits and checks all outputs: the given ones are complete, the others are unchanged.
  void expect(const std::vector<std::size_t>& written) {
    check(cudaStreamSynchronize(stream_));
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      CAPTURE(i);
      const bool was = std::find(written.begin(), written.end(), i) != written.end();
      const std::vector<float> got = read(samples_[i].out);
      const std::vector<float>& wanted = was ? samples_[i].expected : blank_;
      CHECK(std::memcmp(got.data(), wanted.data(), values * sizeof(float)) == 0);
    }
    clear();
  }
  void clear() {
    check(cudaMemset(output(0), 0xee, 4 * sizeof(float) * values));
    check(cudaDeviceSynchronize()); // the stream does not synchronise with the default stream
  }
  /// Waits and compares an output with that of the function alone.
  [[nodiscard]] bool whole(std::size_t i) {
    check(cudaStreamSynchronize(stream_));
    return std::memcmp(read(samples_[i].out).data(), samples_[i].expected.data(),
                       values * sizeof(float)) == 0;
  }

  [[nodiscard]] const work& operator[](std::size_t i) const { return samples_[i].padded; }
  [[nodiscard]] std::size_t size() const { return samples_.size(); }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  static void check(cudaError_t e) { cuda::check(e, "pad test"); }

private:
  [[nodiscard]] float* output(std::size_t i) const { return memory_ + (2 + i) * values; }
  [[nodiscard]] static std::vector<float> read(const float* from) {
    std::vector<float> out(values);
    check(cudaMemcpy(out.data(), from, values * sizeof(float), cudaMemcpyDeviceToHost));
    return out;
  }

  /// Runs the function alone, as a plain kernel.
  template <class F>
  void add(const F& f) {
    clear();
    if (blank_.empty()) blank_ = read(output(0));
    const cuda::plain_kernel<F> plain(f, f.grid(), F::shared_bytes());
    cuda::pad_graph graph;
    graph.make(plain.call());
    REQUIRE(!graph.launch(stream_, plain.call()));
    check(cudaStreamSynchronize(stream_));
    sample s{work(f, f.grid(), F::shared_bytes()), output(samples_.size()), {}};
    s.expected = read(s.out);
    REQUIRE(std::memcmp(s.expected.data(), blank_.data(), values * sizeof(float)) != 0);
    samples_.push_back(std::move(s));
    clear();
  }

  float* memory_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::vector<sample> samples_;
  std::vector<float> blank_;
};

struct rig {
  bed on;
  cuda::padder<family> pads{cuda::find_gpu(0)};

  void launch(const work& real_time, corunners beside) {
    CHECK(pads.why_not(real_time, beside) == "");
    REQUIRE(!pads.launch(on.stream(), real_time, beside));
  }
};

std::string line_of(const auto& f) {
  try {
    f();
  } catch (const error& wrong) {
    return wrong.what();
  }
  return "nothing";
}

TEST_CASE("padded functions compute what they compute alone, for every pair of roles") {
  GSCHED_NEEDS_GPU();
  rig r;
  for (std::size_t i = 0; i < r.on.size(); ++i) {
    r.launch(r.on[i], {});
    r.on.expect({i});
    const std::uint32_t half = r.on[i].blocks() / 2;
    const std::array<work, 1> itself{r.on[i].range(half, r.on[i].blocks() - half)};
    r.launch(r.on[i].range(0, half), itself);
    r.on.expect({i});
    for (std::size_t j = 0; j < r.on.size(); ++j) {
      if (i == j) continue;
      CAPTURE(i);
      CAPTURE(j);
      const std::array<work, 1> beside{r.on[j]};
      r.launch(r.on[i], beside);
      r.on.expect({i, j});
    }
  }
}

TEST_CASE("each block of a co-runner runs once, in any distribution over launches") {
  GSCHED_NEEDS_GPU();
  rig r;
  for (std::size_t j = 1; j < r.on.size(); ++j) {
    CAPTURE(j);
    const work all = r.on[j];
    const std::uint32_t n = all.blocks();
    const std::array<work, 1> some{all.range(0, n / 3)};
    const std::array<work, 1> more{all.range(n / 3, 1)};
    const std::array<work, 1> rest{all.range(n / 3 + 1, n - n / 3 - 1)};
    r.launch(r.on[0], some);
    r.launch({}, more);
    r.launch({}, rest);
    r.on.expect({0, j});
    // The check detects a missing block.
    r.launch({}, some);
    r.launch({}, rest);
    CHECK(!r.on.whole(j));
    r.on.clear();
  }
  r.launch(r.on[3].range(0, 7), {});
  r.launch(r.on[3].range(7, r.on[3].blocks() - 7), {});
  r.on.expect({3});
}

TEST_CASE("several co-runners, and one function more than once") {
  GSCHED_NEEDS_GPU();
  rig r;
  const std::array<work, 3> all{r.on[1], r.on[2], r.on[3]};
  r.launch(r.on[0], all);
  r.on.expect({0, 1, 2, 3});
  const std::uint32_t n = r.on[3].blocks();
  const std::array<work, 4> four{r.on[3].range(0, 100), r.on[2], r.on[3].range(n - 1, 1),
                                 r.on[3].range(100, n - 101)};
  r.launch({}, four);
  r.on.expect({2, 3});
}

TEST_CASE("padded kernels in graphs and captures, and updated nodes") {
  GSCHED_NEEDS_GPU();
  rig r;
  const std::array<work, 1> copies{r.on[1]};
  const std::array<work, 1> sums{r.on[3]};
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  bed::check(cudaGraphCreate(&graph, 0));
  const cudaGraphNode_t node = r.pads.add_node(graph, {}, r.on[0], copies);
  bed::check(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  bed::check(cudaGraphLaunch(exec, r.on.stream()));
  r.on.expect({0, 1});
  CHECK(!r.pads.set_node(exec, node, r.on[2], sums));
  bed::check(cudaGraphLaunch(exec, r.on.stream()));
  r.on.expect({2, 3});
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);

  bed::check(cudaStreamBeginCapture(r.on.stream(), cudaStreamCaptureModeThreadLocal));
  CHECK(!r.pads.launch(r.on.stream(), r.on[0], sums));
  bed::check(cudaStreamEndCapture(r.on.stream(), &graph));
  r.on.expect({}); // nothing has run yet
  bed::check(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  bed::check(cudaGraphLaunch(exec, r.on.stream()));
  r.on.expect({0, 3});
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

TEST_CASE("a proxy has at most its level's registers, and the choice has the fewest") {
  GSCHED_NEEDS_GPU();
  const cuda::padder<family> pads(cuda::find_gpu(0));
  const auto proxies = pads.table().proxies();
  const auto demands = pads.table().demands();
  REQUIRE(demands.size() == 8);
  for (const cuda::pad_proxy& p : proxies) CHECK(p.registers <= p.limit);
  CHECK(std::is_sorted(proxies.begin(), proxies.end(),
                       [](const auto& a, const auto& b) { return a.limit < b.limit; }));
  const work heavy(gemm<32>{nullptr, nullptr, nullptr, 256}, {8, 8, 1}, gemm<32>::shared_bytes());
  const work light(axpy<1>{nullptr, nullptr, nullptr, 256, 1}, {1, 1, 1});
  const std::array<work, 1> beside{heavy};
  const auto alone = pads.choose(light, {});
  const auto both = pads.choose(light, beside);
  REQUIRE(alone);
  REQUIRE(both);
  CHECK(alone->blocks == 1);
  CHECK(both->blocks == 65);
  CHECK(both->threads == 256);
  CHECK(both->shared_bytes == gemm<32>::shared_bytes());
  CHECK(both->proxy->limit >= std::max(demands[3], demands[4]));
  if (both->proxy != proxies.data())
    CHECK((both->proxy - 1)->limit < std::max(demands[3], demands[4]));
  // A role costs a function nothing beside its plain kernel, except for the co-runner's index.
  cudaFuncAttributes plain{};
  const cuda::plain_kernel<gemm<32>> kernel({}, {1, 1, 1});
  cuda::check(cudaFuncGetAttributes(&plain, kernel.call().function), "registers");
  CHECK(demands[0] <= static_cast<std::uint32_t>(plain.numRegs));
  CHECK(demands[4] <= static_cast<std::uint32_t>(plain.numRegs) + 8);
  int held = 0;
  cuda::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&held, both->proxy->function,
                                                            static_cast<int>(both->threads),
                                                            both->shared_bytes),
              "occupancy");
  CHECK(both->blocks_per_sm == static_cast<std::uint32_t>(held));
}

TEST_CASE("a measured variant has plausible times") {
  GSCHED_NEEDS_GPU();
  rig r;
  const kernel_variant v = r.pads.measure(r.on[2]);
  CHECK(v.blocks == 3000);
  CHECK(v.threads_per_block == 128);
  CHECK(v.level > 0);
  CHECK(v.block_time > duration{500});
  CHECK(v.kernel_time > v.block_time);
  CHECK(v.kernel_time < std::chrono::milliseconds{5});
}

TEST_CASE("a fitted function is the same work with the registers of a proxy") {
  GSCHED_NEEDS_GPU();
  rig r;
  for (std::size_t i = 0; i < r.on.size(); ++i) {
    CAPTURE(i);
    const work fit = r.pads.fitted(r.on[i]);
    const auto before = r.pads.choose(r.on[i], {}), after = r.pads.choose(fit, {});
    REQUIRE(before);
    REQUIRE(after);
    CHECK(after->proxy->limit >= before->proxy->limit);
    CHECK(after->proxy->limit == fit.registers());
    CHECK(after->blocks == before->blocks);
    r.launch(fit, {});
    r.on.expect({i});
  }
}

TEST_CASE("a launch that is not possible is refused in one line") {
  GSCHED_NEEDS_GPU();
  using narrow =
      cuda::basic_pad_family<cuda::pad_functions<axpy<1>>, cuda::pad_functions<copy<2>>, 2>;
  using part = cuda::pad_work<narrow>;
  const cuda::gpu gpu = cuda::find_gpu(0);
  const cuda::padder<narrow> pads(gpu);
  const part real(axpy<1>{}, {10, 1, 1});
  const part corunner(copy<2>{}, {10, 1, 1});
  const auto line = [&](const part& r, std::vector<part> g) {
    CHECK(!pads.choose(r, g));
    cudaGraph_t graph = nullptr;
    cuda::check(cudaGraphCreate(&graph, 0), "graph");
    const std::string said = line_of([&] { static_cast<void>(pads.add_node(graph, {}, r, g)); });
    cudaGraphDestroy(graph);
    CHECK(said == pads.why_not(r, g));
    return said;
  };
  CHECK(pads.why_not(real, std::array{corunner, corunner}) == "");
  CHECK(line(real, {corunner, corunner, corunner}) ==
        "padded kernel: 3 co-runners, expected at most 2");
  CHECK(line(real, {real}) ==
        "padded kernel: co-runner 0: a function that the family does not have in this role");
  CHECK(line(corunner, {}) ==
        "padded kernel: real-time part: a function that the family does not have in this role");
  CHECK(line(real, {corunner, part{}}) ==
        "padded kernel: co-runner 1: a function that the family does not have in this role");
  CHECK(line(real, {corunner.range(0, 0)}) ==
        "padded kernel: co-runner 0: no blocks, expected some");
  CHECK(line({}, {}) == "padded kernel: 0 blocks, expected 1 to 2147483647");
  const std::uint32_t most = gpu.sm.max_shared_per_block;
  CHECK(pads.why_not(real, std::array{part(copy<2>{}, {1, 1, 1}, most)}) == "");
  CHECK(line(real, {part(copy<2>{}, {1, 1, 1}, most + 1)}) ==
        "padded kernel: " + std::to_string(most + 1) +
            " bytes of shared memory a block, expected at most " + std::to_string(most));
  const part large(copy<2>{}, {1u << 30, 1, 1});
  CHECK(line(real, {large, large}) == "padded kernel: 2147483658 blocks, expected 1 to 2147483647");
}

} // namespace
} // namespace gsched::testing
