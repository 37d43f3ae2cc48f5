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
constexpr int yields = 10; ///< of each, a round
constexpr double stay_us = 20'000;
constexpr double said_us = 100; ///< so that a program is one piece
constexpr double step_us = 0.5; ///< between checkpoints

/// Chains of kernels of which the first runs when their lane yields: it leaves, and those behind it
/// find the flag set as they start. None of them ever ends.
class leaving_experiment final : public experiment {
public:
  explicit leaving_experiment(const rig& on) : device_(options_for(on.gpu())) {
    node n = leaving(on.cycles(stay_us), on.cycles(step_us));
    n.blocks = on.gpu().sms.count();
    for (const std::size_t length : sizes)
      programs_.push_back(make_program("leaving chain of " + std::to_string(length),
                                       std::vector<node>(length, n), said_us));
    lane_ = device_.open_lane(true);
    for (cuda::program& p : programs_) device_.load(p);
    samples ignored;
    round(ignored);
  }

  [[nodiscard]] const char* name() const noexcept override { return "kernels that leave"; }

  void round(samples& into) override {
    std::array<double, sizes.size()> behind{};
    std::array<double, sizes.size()> gone{};
    std::vector<double> calls;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<double> took;
      for (int k = 0; k < yields; ++k) {
        device_.submit(lane_, programs_[i]);
        device_.pass(100); // it starts when the flag is down again
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
  std::vector<cuda::program> programs_; ///< outlive the device
  driven device_;
  lane_id lane_{};
};

} // namespace

std::unique_ptr<experiment> leaving_kernels(const rig& on) {
  return std::make_unique<leaving_experiment>(on);
}

} // namespace calibrate
