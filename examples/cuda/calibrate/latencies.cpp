// SPDX-License-Identifier: Apache-2.0
#include "calibrate/experiments.hpp"

#include <array>
#include <cstddef>
#include <vector>

namespace calibrate {

namespace {

constexpr std::array<std::size_t, 4> sizes{1, 10, 40, 160};
constexpr int repeats = 20;
constexpr std::uint64_t rounds = 500; ///< of question and answer
enum line : std::size_t { ended = 0, stored = 1, asked = 2, answered = 3 };

class latency_experiment final : public experiment {
public:
  explicit latency_experiment(const rig& on) : rig_(on) {
    for (const std::size_t n : sizes) chains_.push_back(chain_of(n));
    marks_.emplace_back(mark(0, rig_.counter(0), rig_.line(stored)));
    marks_.emplace_back(mark(rig_.cycles(20), rig_.counter(0), rig_.line(stored)));
    answers_.emplace_back(
        answer(rig_.line(asked), rig_.line(answered), rounds, rig_.cycles(2'000'000)));
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
        chains_[i].launch(rig_.stream());
        rig_.notify(ended, ++notified_);
        took.push_back(rig_.wait_for(ended, notified_) - begin);
      }
      x[i] = static_cast<double>(sizes[i]);
      y[i] = figure_of(took).median;
      into.add("end " + std::to_string(sizes[i]), y[i]);
    }
    const line_fit f = fit(x, y);
    into.add("end graph", f.at_zero);
    into.add("end operation", f.slope);
    marked(marks_[0], "store", into, false);
    marked(marks_[1], "end behind store", into, true);
    ask(into);
  }

private:
  /// Launch to store, or store to notification.
  void marked(const executable& graph, const char* what, samples& into, bool behind) {
    std::vector<double> took;
    for (int k = 0; k < repeats; ++k) {
      const double begin = now_us();
      graph.launch(rig_.stream());
      rig_.notify(ended, ++notified_);
      const double seen = rig_.wait_for(stored, ++stores_);
      const double end = rig_.wait_for(ended, notified_);
      took.push_back(behind ? end - seen : seen - begin);
    }
    into.add(what, figure_of(took).median);
  }

  /// Half of a round trip to a kernel that is there already.
  void ask(samples& into) {
    rig_.write(asked, 0);
    rig_.write(answered, 0);
    answers_[0].launch(rig_.stream());
    std::vector<double> took;
    for (std::uint64_t i = 1; i <= rounds; ++i) {
      const double begin = now_us();
      rig_.write(asked, i);
      const double end = rig_.wait_for(answered, i);
      if (i > rounds / 10) took.push_back((end - begin) / 2); // it has to start first
    }
    rig_.synchronize();
    into.add("store seen", figure_of(took).median);
  }

  const rig& rig_;
  std::vector<executable> chains_;
  std::vector<executable> marks_;
  std::vector<executable> answers_;
  std::uint64_t notified_ = 0;
  std::uint64_t stores_ = 0;
};

} // namespace

std::unique_ptr<experiment> latencies(const rig& on) {
  return std::make_unique<latency_experiment>(on);
}

} // namespace calibrate
