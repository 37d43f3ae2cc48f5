// SPDX-License-Identifier: Apache-2.0
#include "calibrate/experiments.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/notify/notification_ring.hpp>
#include <gsched/notify/word.hpp>

#include <cstddef>
#include <vector>

namespace calibrate {

namespace {

using namespace gsched;

constexpr std::size_t slots = 1024;
constexpr std::size_t line = 5; ///< of pinned memory, for the end of the graph
constexpr int repeats = 20;

class block_experiment final : public experiment {
public:
  explicit block_experiment(const rig& on)
      : rig_(on), ring_(on.gpu().ordinal, slots), slot_(ring_.take_slot(1)),
        kernel_(reporting(ring_.report_of(slot_), on.cycles(20))) {
    samples ignored;
    round(ignored);
  }
  ~block_experiment() override { cudaStreamSynchronize(rig_.stream()); }
  block_experiment(const block_experiment&) = delete;
  block_experiment& operator=(const block_experiment&) = delete;

  [[nodiscard]] const char* name() const noexcept override { return "block notifications"; }

  void round(samples& into) override {
    std::vector<double> started;
    std::vector<double> earlier;
    for (int i = 0; i < repeats; ++i) {
      const std::uint64_t words = ring_.words_of(slot_, 1);
      if (!ring_.flow().try_reserve(words))
        throw error(errc::too_small, "notification ring: no room for one block, expected some");
      static_cast<void>(ring_.count_launch(slot_));
      const double begin = now_us();
      kernel_.launch(rig_.stream());
      rig_.notify(line, ++notified_);
      started.push_back(wait_for(notification_type::blocks_started) - begin);
      const double ended = wait_for(notification_type::blocks_ended);
      earlier.push_back(rig_.wait_for(line, notified_) - ended);
      ring_.flow().release(words);
    }
    into.add("block start seen", figure_of(started).median);
    into.add("block end earlier", figure_of(earlier).median);
  }

private:
  /// Polls until there is a word, which must be of that type; only the watchdog bounds the wait.
  double wait_for(notification_type expected) {
    notification seen;
    while (!ring_.reader().try_next([&](const notification& n) { seen = n; })) {
    }
    if (seen.type != expected || seen.blocks != 1)
      throw error(errc::device_failed, "notification ring: another word than that of the block, "
                                       "expected its start and then its end");
    return now_us();
  }

  const rig& rig_;
  cuda::notification_ring ring_;
  cuda::launch_slot slot_;
  executable kernel_;
  std::uint64_t notified_ = 0;
};

} // namespace

std::unique_ptr<experiment> block_notifications(const rig& on) {
  return std::make_unique<block_experiment>(on);
}

} // namespace calibrate
