// SPDX-License-Identifier: Apache-2.0
#include "calibrate/driven.hpp"
#include "calibrate/experiments.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace calibrate {

namespace {

using namespace gsched;
using kind = device_event::kind;

constexpr std::array<std::size_t, 4> sizes{1, 50, 100, 200};
constexpr int yields = 10; ///< of each chain, in each round
constexpr double stay_us = 20'000;
constexpr double said_us = 100; ///< declared duration, so that a program is one grain
constexpr double step_us = 0.5; ///< between checkpoints

/// Chains of kernels whose first one is running when the lane yields. It is preempted, and the
/// later ones find the flag set when they start. None of them ever ends.
class preemption_experiment final : public experiment {
public:
  explicit preemption_experiment(const rig& on) : device_(options_for(on.gpu())) {
    node n = preemptible(on.cycles(stay_us), on.cycles(step_us));
    n.blocks = on.gpu().sms.count();
    for (const std::size_t length : sizes)
      programs_.push_back(make_program("preemptible chain of " + std::to_string(length),
                                       std::vector<node>(length, n), said_us));
    lane_ = device_.open_lane(true);
    for (cuda::program& p : programs_) device_.load(p);
    samples ignored;
    round(ignored);
  }

  [[nodiscard]] const char* name() const noexcept override { return "preemptible kernels"; }

  void round(samples& into) override {
    std::array<double, sizes.size()> behind{};
    std::array<double, sizes.size()> gone{};
    std::vector<double> calls;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<double> took;
      for (int k = 0; k < yields; ++k) {
        device_.submit(lane_, programs_[i]);
        device_.pass(100); // until the flag is cleared and the chain starts
        const double from = now_us();
        calls.push_back(device_.yield(lane_));
        took.push_back(device_.next(kind::segment_preempted).at - from);
        static_cast<void>(device_.next(kind::lane_yielded));
        device_.resume(lane_);
        static_cast<void>(device_.next(kind::lane_resumed));
      }
      behind[i] = static_cast<double>(sizes[i] - 1);
      gone[i] = figure_of(took).median;
    }
    const line_fit f = fit(behind, gone);
    into.add("flag", figure_of(calls).median);
    into.add("flag obeyed", f.at_zero - step_us / 2); // half a step to the next checkpoint
    into.add("pass", f.slope);
  }

private:
  std::vector<cuda::program> programs_; ///< must outlive the device
  driven device_;
  lane_id lane_{};
};

} // namespace

std::unique_ptr<experiment> preemptible_kernels(const rig& on) {
  return std::make_unique<preemption_experiment>(on);
}

} // namespace calibrate
