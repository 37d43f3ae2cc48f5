// SPDX-License-Identifier: Apache-2.0
//
// Two tenants of one GPU. The first runs three small kernels of this file; the second sorts and
// sums keys with CUB, whose kernels come by capture. Neither knows of the other, or of being
// scheduled.
#include "two_gpu_tenants/command_line.hpp"
#include "two_gpu_tenants/tenant.hpp"

#include "common/main.hpp"

#include <gsched/cuda/call.hpp>
#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/gpu.hpp>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <utility>

namespace two_gpu_tenants {
namespace {

namespace gpu = gsched::cuda;
constexpr std::size_t compared = 1024; ///< words of each result that come to the host

__host__ __device__ word smoothed(const word* in, std::size_t n, std::size_t i) {
  return (in[i > 0 ? i - 1 : 0] >> 2) + (in[i] >> 1) + (in[i + 1 < n ? i + 1 : i] >> 2);
}

__global__ void smooth(const word* in, word* out, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) out[i] = smoothed(in, n, i);
}

std::vector<word> random_words(std::size_t n, std::uint64_t seed) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  std::vector<word> words(n);
  std::generate(words.begin(), words.end(), std::ref(random));
  return words;
}

void upload(word* to, const std::vector<word>& from) {
  gpu::check(cudaMemcpy(to, from.data(), from.size() * sizeof(word), cudaMemcpyHostToDevice),
             "upload");
}

/// A kernel of one's own is a program by its name, launch shape and arguments.
tenant make_filter(const options& o, std::size_t instances) {
  const std::size_t n = o.samples;
  const std::vector<word> input = random_words(n, o.seed);
  tenant t{"filter", {}, {}};
  for (std::size_t k = 0; k < instances; ++k) {
    instance& one = t.instances.emplace_back();
    for (int i = 0; i < 3; ++i) one.memory.push_back(make_device_words(n));
    word* const in = one.memory[0].get();
    word* const a = one.memory[1].get();
    word* const b = one.memory[2].get();
    upload(in, input);
    gpu::call_shape shape;
    shape.grid = static_cast<unsigned>((n + 255) / 256);
    shape.block = 256;
    gpu::program_options named;
    named.name = "smooth";
    one.programs.push_back(gpu::make_call(named, shape, smooth, in, a, n));
    one.programs.push_back(gpu::make_call(named, shape, smooth, a, b, n));
    one.programs.push_back(gpu::make_call(named, shape, smooth, b, a, n));
    one.result = a + (n - compared);
  }
  std::vector<word> now = input;
  for (int round = 0; round < 3; ++round) {
    const std::vector<word> before = now;
    for (std::size_t i = 0; i < n; ++i) now[i] = smoothed(before.data(), n, i);
  }
  t.expected.assign(now.end() - compared, now.end());
  return t;
}

/// A library's kernels are a program by capture: what it puts into a stream.
tenant make_sorter(const options& o, std::size_t instances) {
  const std::size_t n = o.keys;
  const int count = static_cast<int>(n);
  std::vector<word> keys = random_words(n, o.seed + 1);
  tenant t{"sorter", {}, {}};
  for (std::size_t k = 0; k < instances; ++k) {
    instance& one = t.instances.emplace_back();
    one.memory.push_back(make_device_words(n));
    one.memory.push_back(make_device_words(n + 1));
    word* const in = one.memory[0].get();
    word* const sorted = one.memory[1].get(); // and, behind the keys, their sum
    upload(in, keys);
    std::size_t bytes[2] = {};
    gpu::check(cub::DeviceRadixSort::SortKeys(nullptr, bytes[0], in, sorted, count), "CUB");
    gpu::check(cub::DeviceReduce::Sum(nullptr, bytes[1], sorted, sorted + n, count), "CUB");
    one.memory.push_back(make_device_words(std::max(bytes[0], bytes[1]) / sizeof(word) + 1));
    void* const scratch = one.memory[2].get();
    one.programs.push_back(gpu::capture("sort", [&](cudaStream_t s) {
      gpu::check(cub::DeviceRadixSort::SortKeys(scratch, bytes[0], in, sorted, count, 0, 32, s),
                 "CUB");
      gpu::check(cub::DeviceReduce::Sum(scratch, bytes[1], sorted, sorted + n, count, s), "CUB");
    }));
    one.result = sorted + (n + 1 - compared);
  }
  std::sort(keys.begin(), keys.end());
  keys.push_back(std::accumulate(keys.begin(), keys.end(), word{0}));
  t.expected.assign(keys.end() - compared, keys.end());
  return t;
}

int run(const options& o) {
  const gpu::gpu found = gpu::find_gpu(o.gpu);
  end_after(std::chrono::seconds(o.limit_s));
  const gpu::current_gpu here(o.gpu);
  std::array<tenant, 2> tenants{make_filter(o, 4), make_sorter(o, o.in_flight)};
  const arrivals when = arrivals_of(o);
  const outcome alone = run_unscheduled(tenants, when);
  const outcome scheduled = run_scheduled(o.gpu, tenants, when);
  tell(o, found.name, tenants, alone, scheduled);
  std::uint64_t wrong = 0;
  for (const outcome* r : {&alone, &scheduled}) wrong += r->wrong[0] + r->wrong[1];
  if (wrong > 0)
    std::fprintf(stderr, "two_gpu_tenants: %llu results are not the CPU's, expected none\n",
                 static_cast<unsigned long long>(wrong));
  return wrong > 0 ? 1 : 0;
}

} // namespace
} // namespace two_gpu_tenants

int main(int argc, char** argv) {
  return common::run_main("two_gpu_tenants", argc, argv, two_gpu_tenants::parse,
                          two_gpu_tenants::run);
}
