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

constexpr std::array<std::size_t, 4> sizes{1, 10, 40, 160};
constexpr int repeats = 20;
constexpr std::uint64_t rounds = 500; ///< of ping-pong
enum line : std::size_t { stored = 1, asked = 2, answered = 3 };

class latency_experiment final : public experiment {
public:
  explicit latency_experiment(const rig& on) : rig_(on), device_(options_for(on.gpu())) {
    for (const std::size_t n : sizes)
      programs_.push_back(
          make_program("chain of " + std::to_string(n), std::vector<node>(n, spin(0)), 2));
    for (const double us : {0.0, 20.0}) {
      const node n = mark(rig_.cycles(us), rig_.counter(0), rig_.line(stored));
      programs_.push_back(make_program("kernel that stores", std::span(&n, 1), us + 2));
    }
    answers_.emplace_back(
        answer(rig_.line(asked), rig_.line(answered), rounds, rig_.cycles(2'000'000)));
    lane_ = device_.open_lane();
    for (gsched::cuda::program& p : programs_) device_.load(p);
    samples ignored;
    round(ignored);
  }

  [[nodiscard]] const char* name() const noexcept override { return "latencies"; }

  void round(samples& into) override {
    std::array<double, sizes.size()> x{};
    std::array<double, sizes.size()> y{};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<double> took;
      for (int k = 0; k < repeats; ++k) {
        const double begin = now_us();
        device_.submit(lane_, programs_[i]);
        took.push_back(device_.next().at - begin);
      }
      x[i] = static_cast<double>(sizes[i]);
      y[i] = figure_of(took).median;
      into.add("end " + std::to_string(sizes[i]), y[i]);
    }
    const line_fit f = fit(x, y);
    into.add("end graph", f.at_zero);
    into.add("end operation", f.slope);
    marked(programs_[sizes.size()], "store", into, false);
    marked(programs_[sizes.size() + 1], "end behind store", into, true);
    ask(into);
  }

private:
  /// From submission to the store, or from the store to the end.
  void marked(gsched::cuda::program& p, const char* what, samples& into, bool behind) {
    std::vector<double> took;
    for (int k = 0; k < repeats; ++k) {
      const double begin = now_us();
      device_.submit(lane_, p);
      const double seen = rig_.wait_for(stored, ++stores_);
      const double end = device_.next().at;
      took.push_back(behind ? end - seen : seen - begin);
    }
    into.add(what, figure_of(took).median);
  }

  /// Half of a round trip to a kernel that is already running.
  void ask(samples& into) {
    rig_.write(asked, 0);
    rig_.write(answered, 0);
    answers_[0].launch(rig_.stream());
    std::vector<double> took;
    for (std::uint64_t i = 1; i <= rounds; ++i) {
      const double begin = now_us();
      rig_.write(asked, i);
      const double end = rig_.wait_for(answered, i);
      if (i > rounds / 10) took.push_back((end - begin) / 2); // skips the kernel's start
    }
    rig_.synchronize();
    into.add("store seen", figure_of(took).median);
  }

  const rig& rig_;
  std::vector<gsched::cuda::program> programs_; ///< must outlive the device
  driven device_;
  gsched::lane_id lane_{};
  std::vector<executable> answers_;
  std::uint64_t stores_ = 0;
};

} // namespace

std::unique_ptr<experiment> latencies(const rig& on) {
  return std::make_unique<latency_experiment>(on);
}

} // namespace calibrate
