// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"
#include "run.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <limits>
#include <random>
#include <vector>

namespace preemption_bench {

namespace {

using experiment::seconds_now;

void await(const std::uint32_t* word) {
  while (std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire) == 0) {
  }
}

/// It includes the latency of a store of the GPU to the host, like every time observed by the host;
/// differences exclude it.
class gpu_clock {
public:
  explicit gpu_clock(stage& s)
      : stage_(s), time_(reinterpret_cast<std::uint64_t*>(s.pinned())),
        exec_(make_clock(time_, 100'000)) {}
  ~gpu_clock() { cudaGraphExecDestroy(exec_); }
  gpu_clock(const gpu_clock&) = delete;
  gpu_clock& operator=(const gpu_clock&) = delete;

  /// The host's time, in us, as the GPU's clock shows it, in a kernel of about 50 us; the clocks
  /// tick at different speeds, so this is repeated.
  void compare() {
    std::atomic_ref(*time_).store(0, std::memory_order_release);
    cuda::check(cudaGraphLaunch(exec_, stage_.best_effort), "clock");
    ahead_ = std::numeric_limits<double>::infinity();
    std::uint64_t last = 0;
    for (;;) {
      const std::uint64_t t = std::atomic_ref(*time_).load(std::memory_order_acquire);
      if (t == over) break;
      if (t == last) continue;
      last = t;
      if (base_ == 0) base_ = t;
      ahead_ = std::min(ahead_, seconds_now() * 1e6 - us(t));
    }
    cuda::check(cudaStreamSynchronize(stage_.best_effort), "clock");
  }
  [[nodiscard]] double host_us(std::uint64_t gpu_ns) const { return us(gpu_ns) + ahead_; }

private:
  static constexpr std::uint64_t over = ~std::uint64_t{0};
  [[nodiscard]] double us(std::uint64_t ns) const {
    return static_cast<double>(static_cast<std::int64_t>(ns - base_)) * 1e-3;
  }

  stage& stage_;
  std::uint64_t* time_;
  cudaGraphExec_t exec_;
  std::uint64_t base_ = 0;
  double ahead_ = 0;
};

} // namespace

/// The parts of the time from the decision until the host observes that all blocks have exited,
/// from what the blocks and a node behind them record.
void breakdown(stage& s, const options& o, nlohmann::json& out) {
  const unsigned blocks = 4 * s.sms;
  std::uint32_t* const running = s.pinned();
  std::uint32_t* const seen = s.pinned();
  std::uint32_t* const flag = s.device<std::uint32_t>(1);
  auto* const times = s.device<left_times>(1);
  const by_hand h{flag, s.device<std::uint32_t>(1), seen, times};
  cudaGraphExec_t const work = make_filling_then_tell(blocks, 20'000'000, o.step, h, running);
  gpu_clock clock(s);
  std::vector<double> set, spread, left, behind, told, all;
  std::mt19937_64 random(10);
  std::uniform_real_distribution<double> instant(20e-6, 100e-6);
  s.dog.step("where the time goes", 60);
  const auto write = [&](unsigned to) {
    cuda::check(cuda::driver().cuStreamWriteValue32(s.real_time,
                                                    reinterpret_cast<CUdeviceptr>(flag), to, 0),
                "flag");
  };
  for (unsigned i = 0; i < std::max(o.repeats / 4, 50u); ++i) {
    write(0);
    cuda::check(cudaStreamSynchronize(s.real_time), "flag");
    left_times none;
    cuda::check(cudaMemcpy(times, &none, sizeof none, cudaMemcpyHostToDevice), "times");
    clock.compare();
    for (std::uint32_t* w : {running, seen})
      std::atomic_ref(*w).store(0, std::memory_order_release);
    cuda::check(cudaGraphLaunch(work, s.best_effort), "launch");
    await(running);
    const double until = seconds_now() + instant(random);
    while (seconds_now() < until) {
    }
    const double from = seconds_now() * 1e6;
    write(1);
    await(seen);
    const double to = seconds_now() * 1e6;
    cuda::check(cudaStreamSynchronize(s.best_effort), "work");
    left_times t;
    cuda::check(cudaMemcpy(&t, times, sizeof t, cudaMemcpyDeviceToHost), "times");
    const auto between = [](std::uint64_t a, std::uint64_t b) {
      return static_cast<double>(static_cast<std::int64_t>(b - a)) * 1e-3;
    };
    set.push_back(clock.host_us(t.first) - from);
    spread.push_back(between(t.first, t.last));
    left.push_back(between(t.last, t.listed));
    behind.push_back(between(t.listed, t.behind));
    told.push_back(to - clock.host_us(t.behind));
    all.push_back(to - from);
  }
  cuda::check(cudaGraphExecDestroy(work), "graph");
  nlohmann::json& rows = out["breakdown"];
  rows.push_back(summary("by hand, told by a node behind the kernel", all));
  rows.push_back(summary("  decision -> first block acts on the flag, host's clock", set));
  rows.push_back(summary("  -> last block acts on it", spread));
  rows.push_back(summary("  -> last block is on the list", left));
  rows.push_back(summary("  -> node behind the kernel runs", behind));
  rows.push_back(summary("  -> its word, with release, seen: more than a plain store's", told));
  s.dog.rest();
}

} // namespace preemption_bench
