// SPDX-License-Identifier: Apache-2.0
#include "calibrate/driven.hpp"
#include "calibrate/experiments.hpp"

#include <gsched/core/error.hpp>

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace calibrate {

namespace {

using namespace gsched;
using kind = device_event::kind;

constexpr std::size_t kernels = 120;
constexpr double kernel_us = 3;
constexpr int yields = 40; ///< in each round

cuda::device_options with_gates(const cuda::gpu& which, unsigned every) {
  cuda::device_options o = options_for(which);
  o.gate_every = every;
  return o;
}

cuda::program chain_that_fills(const rig& on, std::uint32_t blocks_per_sm) {
  node n = spin(on.cycles(kernel_us));
  n.blocks = blocks_per_sm * on.gpu().sms.count();
  return make_program(std::to_string(blocks_per_sm) + " blocks an SM",
                      std::vector<node>(kernels, n), kernel_us);
}

/// The cost of open gates: a graph with gates and one without, alternating.
class gate_cost {
public:
  gate_cost(rig& on, unsigned every, std::uint32_t blocks_per_sm)
      : rig_(on), program_(chain_that_fills(on, blocks_per_sm)),
        device_(with_gates(on.gpu(), every)), plain_(device_.open_lane()),
        gated_(device_.open_lane(true)) {
    device_.load(program_);
    gates_ = device_.device().statistics().gates;
    if (gates_ == 0) throw error(errc::bad_graph, "chain of kernels: no gates, expected some");
  }

  /// The cost of one gate.
  [[nodiscard]] double us() {
    const double without = once(plain_);
    return (once(gated_) - without) / static_cast<double>(gates_);
  }

private:
  [[nodiscard]] double once(lane_id lane) {
    const double took = rig_.device_us(device_.device().stream_of(lane), [&] {
      device_.drain(); // polls the ends of the previous ones
      device_.submit(lane, program_);
    });
    device_.drain();
    return took;
  }

  rig& rig_;
  cuda::program program_; ///< must outlive the device
  driven device_;
  lane_id plain_, gated_;
  std::uint64_t gates_ = 0;
};

/// A lane that yields and resumes, with a gate beside every kernel. The lane has yielded when two
/// gates are closed: the later one closes when the kernel between them has ended.
class gate_experiment final : public experiment {
public:
  explicit gate_experiment(rig& on)
      : rig_(on), few_(on, usual, 1), many_(on, usual, 4), program_(chain_that_fills(on, 1)),
        device_(with_gates(on.gpu(), 1)), lane_(device_.open_lane(true)) {
    device_.load(program_);
    samples ignored;
    round(ignored);
  }

  [[nodiscard]] const char* name() const noexcept override { return "gates"; }

  void round(samples& into) override {
    const double few = few_.us();
    const double many = many_.us();
    into.add("gate, few blocks", few);
    into.add("gate, many blocks", many);
    into.add("gate", (few + many) / 2);

    const double all = rig_.device_us(device_.device().stream_of(lane_), [&] {
      device_.drain();
      device_.submit(lane_, program_);
    });
    device_.drain();
    const double step = all / kernels;

    std::vector<double> stores, stands, goes;
    std::uniform_real_distribution<double> instant(60, 60 + 30 * kernel_us);
    for (int i = 0; i < yields; ++i) {
      device_.submit(lane_, program_);
      device_.pass(instant(random_));
      double from = now_us();
      stores.push_back(device_.yield(lane_));
      // At a random instant, the next gate is half a step away on average, and the one after it one
      // and a half.
      stands.push_back(device_.next(kind::lane_yielded).at - from - 1.5 * step);
      device_.pass(10);
      from = now_us();
      stores.push_back(device_.resume(lane_));
      goes.push_back(device_.next(kind::lane_resumed).at - from);
      device_.drain();
    }
    into.add("hold", figure_of(stores).median);
    into.add("gate seen", figure_of(stands).median);
    into.add("gate left", figure_of(goes).median);
  }

private:
  static constexpr unsigned usual = 2; ///< sim::yield_costs::gate_every

  rig& rig_;
  gate_cost few_, many_;
  cuda::program program_; ///< must outlive the device
  driven device_;
  lane_id lane_;
  std::mt19937_64 random_{1};
};

} // namespace

std::unique_ptr<experiment> gates(rig& on) { return std::make_unique<gate_experiment>(on); }

} // namespace calibrate
