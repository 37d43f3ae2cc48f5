// SPDX-License-Identifier: Apache-2.0
#include "calibrate/driven.hpp"
#include "calibrate/experiments.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace calibrate {

namespace {

using namespace gsched;

constexpr std::array<std::size_t, 6> sizes{1, 4, 10, 20, 40, 80};
constexpr std::size_t burst = 8; ///< segments in flight, so that submission never waits for the GPU

cuda::device_options with_copies(const cuda::gpu& which) {
  cuda::device_options o = options_for(which);
  o.copies = burst;
  return o;
}

class device_experiment final : public experiment {
public:
  explicit device_experiment(const cuda::gpu& which) : device_(with_copies(which)) {
    programs_.reserve(sizes.size() + 1);
    for (const std::size_t n : sizes)
      programs_.push_back(
          make_program("chain of " + std::to_string(n), std::vector<node>(n, spin(0)), 2));
    const node busy = spin(1'000'000); // about half a millisecond
    programs_.push_back(make_program("busy", std::span(&busy, 1), 1000));
    lane_ = device_.open_lane();
    for (cuda::program& p : programs_) device_.load(p);
    for (cuda::program& p : programs_) {
      for (std::size_t i = 0; i < burst; ++i) submit(p);
      drain(burst, nullptr);
    }
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

    constexpr int looks = 256; // about 30 us, while the kernel runs for half a millisecond
    submit(programs_.back());
    const double begin = now_us();
    bool seen = false;
    for (int i = 0; i < looks; ++i) seen |= device_.poll().has_value();
    const double empty = (now_us() - begin) / looks;
    if (!seen) drain(1, nullptr);
    if (!seen) into.add("poll", empty);
    into.add("take", std::max(0.0, figure_of(event_polls).median - empty));
  }

private:
  double submit(cuda::program& p) { return device_.submit(lane_, p); }

  void drain(std::size_t n, std::vector<double>* took) {
    for (; n > 0; --n) {
      const driven::seen s = device_.next();
      if (took != nullptr) took->push_back(s.took);
    }
  }

  std::vector<cuda::program> programs_; ///< must outlive the device
  driven device_;
  lane_id lane_{};
};

} // namespace

std::unique_ptr<experiment> device_costs(const cuda::gpu& which) {
  return std::make_unique<device_experiment>(which);
}

} // namespace calibrate
