// SPDX-License-Identifier: Apache-2.0
#include "calibrate/experiments.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/device.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/program.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

namespace calibrate {

namespace {

using namespace gsched;

constexpr std::array<std::size_t, 6> sizes{1, 4, 10, 20, 40, 80};
constexpr std::size_t burst = 8; ///< segments in flight, so that the GPU is never waited for

cuda::program make_program(std::size_t kernels, std::uint64_t cycles) {
  const std::vector<node> nodes(kernels, spin(cycles));
  const CUgraph graph = make_chain(nodes);
  cuda::program_options how;
  how.name = "chain of " + std::to_string(kernels);
  how.durations.assign(kernels, from_us(cycles == 0 ? 2 : 1000));
  try {
    cuda::program p(graph, how);
    cuda::driver().cuGraphDestroy(graph);
    return p;
  } catch (...) {
    cuda::driver().cuGraphDestroy(graph);
    throw;
  }
}

cuda::device_options options_for(const cuda::gpu& which) {
  cuda::device_options o;
  o.gpu = which.ordinal;
  o.max_segments = 4 * burst;
  o.ring_slots = 1024;
  o.grain = std::chrono::seconds{1}; // a program is one piece
  o.levels = 1;
  o.copies = burst;
  return o;
}

class device_experiment final : public experiment {
public:
  explicit device_experiment(const cuda::gpu& which) : device_(options_for(which)) {
    programs_.reserve(sizes.size() + 1);
    for (const std::size_t n : sizes) programs_.push_back(make_program(n, 0));
    programs_.push_back(make_program(1, 1'000'000)); // about half a millisecond
    lane_ = device_.open_lane({});
    for (cuda::program& p : programs_) device_.load(p);
    for (cuda::program& p : programs_) {
      for (std::size_t i = 0; i < burst; ++i) submit(p);
      drain(burst, nullptr);
    }
    const double begin = now_us();
    for (int i = 0; i < 1000; ++i) static_cast<void>(now_us());
    clock_us_ = (now_us() - begin) / 1000;
  }

  [[nodiscard]] const char* name() const noexcept override { return "submitting and polling"; }

  void round(samples& into) override {
    std::array<double, sizes.size()> x{};
    std::array<double, sizes.size()> y{};
    std::vector<double> event_polls;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<double> submits;
      for (int repeat = 0; repeat < 4; ++repeat) {
        for (std::size_t k = 0; k < burst; ++k) submits.push_back(submit(programs_[i]));
        drain(burst, &event_polls);
      }
      x[i] = static_cast<double>(sizes[i]);
      y[i] = figure_of(submits).median;
      into.add("submit " + std::to_string(sizes[i]), y[i]);
    }
    const line_fit f = fit(x, y);
    into.add("submit graph", f.at_zero);
    into.add("submit operation", f.slope);

    constexpr int looks = 256; // 30 us or so, while the kernel runs for half a millisecond
    submit(programs_.back());
    const double begin = now_us();
    std::size_t seen = 0;
    for (int i = 0; i < looks; ++i) seen += poll();
    const double empty = (now_us() - begin) / looks;
    drain(1 - seen, nullptr);
    if (seen == 0) into.add("poll", empty);
    into.add("take", std::max(0.0, figure_of(event_polls).median - empty));
  }

private:
  /// What the call took.
  double submit(cuda::program& p) {
    gsched::program& host = p.host();
    segment s;
    s.id = segment_id{++submitted_};
    s.lane = lane_;
    s.program = host.id();
    s.operations = host.range(0, host.size());
    const double begin = now_us();
    const std::error_code e = device_.submit(s);
    const double took = now_us() - begin - clock_us_;
    if (e) throw error(errc::device_failed, "submitting " + host.name() + ": " + e.message());
    return took;
  }

  std::size_t poll() {
    std::array<device_event, 1> out{};
    const std::size_t n = device_.poll(out);
    if (n == 1 && out[0].what == device_event::kind::segment_failed)
      throw error(errc::device_failed,
                  "polling: " + device_.failure().value_or("a segment failed"));
    return n;
  }

  void drain(std::size_t n, std::vector<double>* took) {
    while (n > 0) {
      const double begin = now_us();
      if (poll() == 0) continue;
      --n;
      if (took != nullptr) took->push_back(now_us() - begin - clock_us_);
    }
  }

  std::vector<cuda::program> programs_; ///< outlive the device
  cuda::device device_;
  lane_id lane_{};
  std::uint64_t submitted_ = 0;
  double clock_us_ = 0;
};

} // namespace

std::unique_ptr<experiment> device_costs(const cuda::gpu& which) {
  return std::make_unique<device_experiment>(which);
}

} // namespace calibrate
