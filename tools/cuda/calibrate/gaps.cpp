// SPDX-License-Identifier: Apache-2.0
#include "calibrate/driven.hpp"
#include "calibrate/experiments.hpp"

#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>

namespace calibrate {

namespace {

constexpr std::size_t few = 24;
constexpr std::size_t many = 120; ///< launches; fit into a stream's queue
constexpr std::size_t piece = 8;  ///< kernels of a segment
constexpr std::size_t line = 4;   ///< of pinned memory, for the notifications

/// One grain more than `many` kernels, so that no measured segment is its program's last.
gsched::cuda::program make_segmented_chain() {
  return make_program("chain in segments", std::vector<node>(many + piece, spin(0)), 5);
}

/// The time of one more, from the difference of many and few, which removes the ends.
double each(rig& r, CUstream on, const std::function<void(std::size_t)>& enqueue) {
  const double all = r.device_us(on, [&] { enqueue(many); });
  const double some = r.device_us(on, [&] { enqueue(few); });
  return (all - some) / static_cast<double>(many - few);
}
double each(rig& r, const std::function<void(std::size_t)>& enqueue) {
  return each(r, r.stream(), enqueue);
}

class gap_experiment final : public experiment {
public:
  explicit gap_experiment(rig& on)
      : rig_(on), cycles_(on.cycles(10)), many_(chain_of(many)), few_(chain_of(few)),
        many_long_(chain_of(many, cycles_)), few_long_(chain_of(few, cycles_)), one_(chain_of(1)),
        pieces_(make_segmented_chain()), device_(options_for(on.gpu(), 5 * piece)),
        lane_(device_.open_lane()) {
    device_.load(pieces_);
    samples ignored;
    round(ignored);
  }

  [[nodiscard]] const char* name() const noexcept override { return "gaps"; }

  void round(samples& into) override {
    const double in_graph =
        each(rig_, [&](std::size_t n) { (n == many ? many_ : few_).launch(rig_.stream()); });
    const double longer = each(
        rig_, [&](std::size_t n) { (n == many ? many_long_ : few_long_).launch(rig_.stream()); });
    const double graph = each(rig_, [&](std::size_t n) {
      for (std::size_t i = 0; i < n; ++i) one_.launch(rig_.stream());
    });
    const double segment = each(rig_, device_.device().stream_of(lane_), [&](std::size_t n) {
      device_.drain(); // polls the ends of the previous ones
      for (std::size_t i = 0; i < n; i += piece) device_.submit(lane_, pieces_, i, i + piece);
    });
    device_.drain();
    into.add("in graph", in_graph);
    into.add("clock ghz", static_cast<double>(cycles_) / std::max(longer - in_graph, 1e-3) / 1e3);
    into.add("graph of one", graph);
    // The time beyond the segment's kernels, had they been in one graph with the next ones.
    into.add("cut", (segment - in_graph) * piece);
  }

private:
  rig& rig_;
  std::uint64_t cycles_;
  executable many_, few_, many_long_, few_long_, one_;
  gsched::cuda::program pieces_; ///< must outlive the device
  driven device_;
  gsched::lane_id lane_;
};

class launch_experiment final : public experiment {
public:
  explicit launch_experiment(rig& on) : rig_(on) {
    samples ignored;
    round(ignored);
  }

  [[nodiscard]] const char* name() const noexcept override { return "direct launches"; }

  void round(samples& into) override {
    const auto launch = [&] {
      gsched::cuda::check(launch_empty(rig_.stream()), "launching a kernel");
    };
    into.add("launch after launch", each(rig_, [&](std::size_t n) {
               for (std::size_t i = 0; i < n; ++i) launch();
             }));
    host_time("launch", into, launch);
    host_time("launch and notify", into, [&] {
      launch();
      rig_.notify(line, ++notified_);
    });
  }

private:
  /// Measured while the GPU is busy, so that no launch wakes it.
  template <class Call>
  void host_time(const char* what, samples& into, Call call) {
    static_cast<void>(rig_.device_us([&] {
      const double begin = now_us();
      for (std::size_t i = 0; i < many; ++i) call();
      into.add(what, (now_us() - begin) / many);
    }));
  }

  rig& rig_;
  std::uint64_t notified_ = 0;
};

} // namespace

std::unique_ptr<experiment> gaps(rig& on) { return std::make_unique<gap_experiment>(on); }

std::unique_ptr<experiment> direct_launches(rig& on) {
  return std::make_unique<launch_experiment>(on);
}

} // namespace calibrate
