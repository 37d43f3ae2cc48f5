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

  /// The body of a job, a coroutine: launches the program of its instance and waits for it.
  gsched::task operator()(gsched::job_context& job) {
    job.launch(programs[job.instance].host());
    co_await job.synchronize();
    wrong += std::equal(expected.begin(), expected.end(), results[job.instance]) ? 0 : 1;
  }
};

struct recorder : gsched::silent_listener {
  void on_end(const gsched::job& j, void* user, time_point now) noexcept {
    tenant& t = *static_cast<tenant*>(user);
    t.latency.record(now - j.arrival);
    --t.in_flight;
    t.wrong += j.state == gsched::job_state::finished ? 0 : 1;
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
  gpu::device device;
  gsched::aggregate_accountant account(device.limits().sm, device.limits().sms);
  Policy policy;
  recorder listener;
  gsched::dispatcher scheduler(device, policy, account, listener);
  const auto add = [&](tenant& t) {
    t.latency = {};
    for (gpu::program& p : t.programs) scheduler.load(p.host());
    const auto instances = static_cast<std::uint32_t>(t.programs.size());
    gsched::job_request r;
    r.model = scheduler.add_model(t.name, t, &t.programs[0].host(), instances);
    for (std::size_t i = 1; i < t.programs.size(); ++i)
      scheduler.add_replica(r.model, t.programs[i].host(), t.programs[0].host());
    r.owner = &scheduler.add_client();
    r.user = &t;
    return r;
  };
  gsched::job_request small = add(filter), large = add(sorter);
  time_point due = device.now() + from_us(1000); // of the filter's next job
  for (std::size_t submitted = 0; submitted < filter_jobs || !scheduler.idle();) {
    for (; submitted < filter_jobs && due <= device.now(); ++submitted, due += from_us(400)) {
      small.arrival = due;
      ++filter.in_flight;
      static_cast<void>(scheduler.submit(small));
    }
    for (; submitted < filter_jobs && sorter.in_flight < 2; ++sorter.in_flight)
      static_cast<void>(scheduler.submit(large));
    if (!scheduler.step())
      device.wait(
          std::min(submitted < filter_jobs ? due : gsched::no_deadline, scheduler.step_by()));
    if (device.failure()) throw gsched::error(gsched::errc::device_failed, *device.failure());
  }
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
