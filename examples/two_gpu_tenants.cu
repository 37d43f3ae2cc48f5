// SPDX-License-Identifier: Apache-2.0
//
// Two tenants of one GPU: a filter of three small kernels every 400 us, and a sorter (CUB) that
// keeps two jobs in flight. They run under first in, first out and then under shortest remaining
// time first with fairness. Each result is compared with the CPU's.
#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/device.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/gsched.hpp>

#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <random>
#include <utility>
#include <vector>

namespace gpu = gsched::cuda;
using gsched::from_us, gsched::time_point;

namespace {

constexpr std::size_t samples = 1 << 20, keys = 1 << 22, filter_jobs = 500, checked = 1024;

/// A captured program holds addresses: jobs that overlap need one program each, with its memory.
struct tenant {
  const char* name;
  std::vector<gpu::program> programs{};   ///< one for each instance
  std::vector<const unsigned*> results{}; ///< by instance: `checked` words, in pinned memory
  std::vector<unsigned> expected{};       ///< of every job, computed on the CPU
  gsched::trace::histogram latency{};
  std::size_t in_flight = 0, wrong = 0;
};

/// The body of a tenant's jobs, a coroutine: launches the program of its instance and waits for it.
struct run_and_check {
  tenant* whose;
  gsched::task operator()(gsched::job_context& job, const gsched::program& graph) const {
    job.launch(graph);
    co_await job.synchronize();
    const unsigned* const got = whose->results[job.instance];
    whose->wrong += std::equal(whose->expected.begin(), whose->expected.end(), got) ? 0 : 1;
  }
};

/// Device memory, with the words of `from` at its start. It is kept until the process ends.
unsigned* device_words(std::size_t n, const std::vector<unsigned>& from = {}) {
  void* p = nullptr;
  gpu::check(cudaMalloc(&p, n * sizeof(unsigned)), "device memory");
  if (!from.empty())
    gpu::check(cudaMemcpy(p, from.data(), from.size() * sizeof(unsigned), cudaMemcpyDefault),
               "input");
  return static_cast<unsigned*>(p);
}

/// Adds an instance: what `launch` puts into a stream, then a copy of `result` to pinned memory.
template <class Launch>
void add_instance(tenant& t, const unsigned* result, Launch launch) {
  void* pinned = nullptr;
  gpu::check(cudaMallocHost(&pinned, checked * sizeof(unsigned)), "pinned memory");
  t.results.push_back(static_cast<const unsigned*>(pinned));
  t.programs.push_back(gpu::capture(t.name, [&](cudaStream_t s) {
    launch(s);
    gpu::check(cudaMemcpyAsync(pinned, result, checked * sizeof(unsigned), cudaMemcpyDefault, s),
               "result");
  }));
}

__global__ void halve(const unsigned* in, unsigned* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] / 2;
}

std::vector<unsigned> random_words(std::size_t n) {
  std::mt19937 random(1);
  std::vector<unsigned> words(n);
  std::generate(words.begin(), words.end(), std::ref(random));
  return words;
}

tenant make_filter() {
  tenant t{"filter"};
  t.expected = random_words(samples);
  unsigned *const in = device_words(samples, t.expected), *const out = device_words(samples);
  add_instance(t, out, [&](cudaStream_t s) {
    halve<<<samples / 256, 256, 0, s>>>(in, out);
    halve<<<samples / 256, 256, 0, s>>>(out, out);
    halve<<<samples / 256, 256, 0, s>>>(out, out);
  });
  t.expected.resize(checked);
  for (unsigned& word : t.expected) word /= 8;
  return t;
}

tenant make_sorter() {
  tenant t{"sorter"};
  t.expected = random_words(keys);
  for (int instance = 0; instance < 2; ++instance) {
    unsigned *const in = device_words(keys, t.expected), *const out = device_words(keys);
    std::size_t bytes = 0;
    gpu::check(cub::DeviceRadixSort::SortKeys(nullptr, bytes, in, out, int{keys}), "CUB");
    void* const scratch = device_words(bytes / sizeof(unsigned) + 1);
    add_instance(t, out, [&](cudaStream_t s) {
      gpu::check(cub::DeviceRadixSort::SortKeys(scratch, bytes, in, out, int{keys}, 0, 32, s),
                 "CUB");
    });
  }
  std::sort(t.expected.begin(), t.expected.end());
  t.expected.resize(checked);
  return t;
}

template <class Policy>
void serve(tenant& filter, tenant& sorter) {
  gsched::scheduler s{gpu::device{}, Policy{}};
  const auto add = [&s](tenant& t) {
    t.latency = {};
    std::vector<gsched::program*> instances;
    for (gpu::program& p : t.programs) instances.push_back(&p.host());
    return s.add_model(t.name, std::move(instances), run_and_check{&t});
  };
  const gsched::model_id filters = add(filter), sorts = add(sorter);
  const auto submit = [&s](gsched::model_id model, gsched::client_id client, tenant& t,
                           time_point arrival) {
    ++t.in_flight;
    s.submit(model, {.client = client, .arrival = arrival, .done = [&t](const auto& j, auto now) {
                       t.latency.record(now - j.arrival);
                       --t.in_flight;
                       t.wrong += j.state == gsched::job_state::finished ? 0 : 1;
                     }});
  };
  const gsched::client_id first = s.add_client(), second = s.add_client();
  time_point due = s.now() + from_us(1000); // of the filter's next job
  for (std::size_t submitted = 0; submitted < filter_jobs;) {
    for (; submitted < filter_jobs && due <= s.now(); ++submitted, due += from_us(400))
      submit(filters, first, filter, due);
    while (sorter.in_flight < 2) submit(sorts, second, sorter, s.now());
    if (!s.step()) s.wait(due);
  }
  s.run();
  for (const tenant* t : {&filter, &sorter})
    std::printf("%-14s %-8s %6llu jobs, mean %8.1f us, p99 %8.1f us, wrong %zu\n",
                Policy::name.data(), t->name, static_cast<unsigned long long>(t->latency.count()),
                gsched::to_us(t->latency.mean()), gsched::to_us(t->latency.percentile(0.99)),
                t->wrong);
}

} // namespace

int main(int argc, char**) try {
  if (argc > 1) return std::fprintf(stderr, "two_gpu_tenants: an argument, expected none\n"), 2;
  static_cast<void>(gpu::find_gpu(0)); // throws one line where there is no driver or GPU
  tenant filter = make_filter(), sorter = make_sorter();
  serve<gsched::fifo>(filter, sorter);
  serve<gsched::deficit_over<gsched::srpt>>(filter, sorter);
  return filter.wrong + sorter.wrong == 0 && std::fflush(stdout) == 0 ? 0 : 1;
} catch (const std::exception& e) {
  return std::fprintf(stderr, "two_gpu_tenants: %s\n", e.what()), 1;
}
