// SPDX-License-Identifier: Apache-2.0
#include "interference/power.hpp"

#include "interference/suites.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/replaying.hpp>

#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

namespace interference {

namespace cuda = gsched::cuda;

namespace {

constexpr double longest_us = 60e6; ///< a load ends by itself after that

struct stream_of {
  CUstream s = nullptr;
  explicit stream_of(const cuda::partition& p) : s(p.make_stream(0)) {}
  ~stream_of() { cudaStreamDestroy(s); }
  stream_of(const stream_of&) = delete;
  stream_of& operator=(const stream_of&) = delete;
};

/// A load that runs while this lives.
class running_load {
public:
  running_load(const power_load& load, const cuda::partition& where) : stream_(where) {
    if (!load.probe) return;
    probe_.emplace(*load.probe, where.sms(), where.context());
    probe_->start(stream_.s, longest_us);
    if (!probe_->wait_running(1e6))
      throw gsched::error(gsched::errc::device_failed,
                          load.name + ": no block started, expected one");
  }
  /// Stops it, and returns the clock that its blocks counted.
  double stop() {
    if (!probe_) return 0;
    probe_->stop();
    return probe_->last().clock_mhz;
  }

private:
  stream_of stream_;
  std::optional<cuda::probe> probe_;
};

} // namespace

std::vector<power_load> power_loads() {
  using kind = cuda::probe_kind;
  return {{"idle"},
          {"one block", probe_of(kind::fp32, 4, 128, 1)},
          {"fp32", probe_of(kind::fp32, 4, 1024)},
          {"fp64", probe_of(kind::fp64, 4, 1024)},
          {"tensor", probe_of(kind::tensor, 4, 1024)},
          {"one tensor block", probe_of(kind::tensor, 4, 128, 1)},
          {"copy", probe_of(kind::copy, 4096, 1024)}};
}

power_result measure_power(const power_load& load, int gpu, double victim_us, double seconds) {
  const std::size_t groups = cuda::group_sizes(gpu).size();
  if (groups < 3)
    throw gsched::error(gsched::errc::too_small,
                        "the GPU's groups of SMs: " + std::to_string(groups) +
                            ", expected three or more, of which the victim has two");
  std::vector<std::uint32_t> all(groups);
  std::iota(all.begin(), all.end(), 0u);
  const std::vector<std::uint32_t> mine(all.begin(), all.begin() + 2);
  const std::vector<std::uint32_t> rest(all.begin() + 2, all.end());
  cuda::power_sampler sampler(gpu);
  const auto settle = std::chrono::duration<double>(seconds / 2);
  power_result made;
  {
    const cuda::partition whole(gpu, all);
    running_load on(load, whole);
    std::this_thread::sleep_for(settle);
    sampler.start();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    made.alone = sampler.stop();
    on.stop();
  }
  const auto victims = std::make_shared<const cuda::partition>(gpu, mine);
  const cuda::partition others(gpu, rest);
  made.victim_sms = victims->sms();
  made.load_sms = others.sms();
  cuda::probe victim(probe_of(cuda::probe_kind::fp32, 4, 0), victims->sms(), victims->context());
  const cuda::program of(victim.finite(victim.rounds_for(victim_us)),
                         {.name = "victim", .measure = false});
  const cuda::placed_graph graph(of, victims);
  const stream_of stream(*victims);
  std::vector<double> us;
  running_load on(load, others);
  cuda::replayer({.alone = gsched::from_us(5e5 * seconds)}).alone(graph, us, stream.s);
  us.clear();
  sampler.start();
  cuda::replayer({.alone = gsched::from_us(1e6 * seconds)}).alone(graph, us, stream.s);
  made.beside = sampler.stop();
  made.load_mhz = on.stop();
  made.victim = cuda::summarize(std::move(us));
  return made;
}

} // namespace interference
