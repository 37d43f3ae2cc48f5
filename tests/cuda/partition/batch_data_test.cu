// SPDX-License-Identifier: Apache-2.0
#include "cuda/needs_gpu.hpp"
#include "serving/batch_data_conformance.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/partition/partition_batches.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

__global__ void sums_of_pairs(const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* sum,
                              std::uint32_t* difference, std::uint32_t n) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  sum[i] = a[i] + 3 * b[i];
  difference[i] = a[i] - b[i];
}

/// Memory that is freed at the end.
class all_memory {
public:
  ~all_memory() {
    for (void* const p : on_gpu_) static_cast<void>(cudaFree(p));
    for (void* const p : pinned_) static_cast<void>(cudaFreeHost(p));
  }
  [[nodiscard]] std::byte* on_gpu(std::size_t bytes) {
    const std::lock_guard lock(guard_);
    void* p = nullptr;
    cuda::check(cudaMalloc(&p, bytes), "memory of a test");
    on_gpu_.push_back(p);
    return static_cast<std::byte*>(p);
  }
  [[nodiscard]] std::byte* pinned(std::size_t bytes) {
    void* p = nullptr;
    cuda::check(cudaHostAlloc(&p, bytes, cudaHostAllocDefault), "pinned memory of a test");
    pinned_.push_back(p);
    return static_cast<std::byte*>(p);
  }
  [[nodiscard]] std::byte* pageable(std::size_t bytes) {
    return pageable_.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
  }

private:
  std::mutex guard_;
  std::vector<void*> on_gpu_, pinned_;
  std::vector<std::unique_ptr<std::byte[]>> pageable_;
};

/// Computes pair_of_sums of a batch, on memory of its own.
cuda::program_lease sums_of(all_memory& memory, std::uint32_t batch) {
  const std::size_t bytes = batch * pair_of_sums::bytes;
  std::uint32_t* at[4];
  for (std::uint32_t*& p : at) p = reinterpret_cast<std::uint32_t*>(memory.on_gpu(bytes));
  const auto n = static_cast<std::uint32_t>(batch * pair_of_sums::length);
  cuda::program_options how;
  how.name = "sums of " + std::to_string(batch);
  how.measure = false;
  auto made = std::make_shared<cuda::program>(cuda::capture(
      how, [&](cudaStream_t s) { sums_of_pairs<<<1, 64, 0, s>>>(at[0], at[1], at[2], at[3], n); }));
  return {std::move(made),
          {{at[0], pair_of_sums::bytes}, {at[1], pair_of_sums::bytes}},
          {{at[2], pair_of_sums::bytes}, {at[3], pair_of_sums::bytes}}};
}

TEST_CASE("batches on partitions of a GPU move the data of their requests") {
  GSCHED_NEEDS_GPU();
  all_memory memory;
  cuda::partition_batches_options o;
  o.batches = {{1, 2, 4, 8}};
  cuda::partition_batches runner(
      o, [&](const cuda::batch_program& b) { return sums_of(memory, b.batch); });
  batch_data_conformance<cuda::partition_batches> d{runner, 4};
  // Some pinned memory is in one allocation, one request behind the other.
  constexpr std::size_t many = 20000;
  std::byte* const row = memory.pinned(many * pair_of_sums::bytes);
  std::size_t used = 0;
  d.memory = [&](std::size_t kind) {
    switch (kind) {
    case 0: return memory.pageable(pair_of_sums::bytes);
    case 1: return memory.pinned(pair_of_sums::bytes);
    case 2: return memory.on_gpu(pair_of_sums::bytes);
    default: REQUIRE(used < many); return row + used++ * pair_of_sums::bytes;
    }
  };
  d.write = d.read = [](std::byte* to, const std::byte* from) {
    cuda::check(cudaMemcpy(to, from, pair_of_sums::bytes, cudaMemcpyDefault), "copy of a test");
  };
  d.run(60);
}

TEST_CASE("data of another number of buffers than the program's is refused in one line") {
  GSCHED_NEEDS_GPU();
  all_memory memory;
  cuda::partition_batches_options o;
  o.batches = {{1, 2, 4, 8}};
  cuda::partition_batches runner(
      o, [&](const cuda::batch_program& b) { return sums_of(memory, b.batch); });
  batch_data_conformance<cuda::partition_batches> d{runner};
  d.on.switch_to({32});
  std::uint32_t x = 0;
  const std::vector<const void*> one{&x};
  CHECK_THROWS_WITH_AS(runner.begin({0, 0, sm_count{32}, 0, 1, {one, {}}}),
                       doctest::Contains("2 inputs and 2 outputs"), error);
}

} // namespace
} // namespace gsched::testing
