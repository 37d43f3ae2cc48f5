// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "measure/graphs.hpp"
#include "measure/options.hpp"
#include "measure/part_report.hpp"
#include "measure/places.hpp"
#include "measure/time_shares.hpp"

#include "common/run/step_watchdog.hpp"

#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda_tools/replaying.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace measure {

/// What the parts of a run share.
struct session {
  const options& how;
  const gsched::cuda::gpu& gpu;
  std::vector<measured_graph>& graphs;
  const measured_graph* ticks; ///< of these or not; null: no part needs it
  places& on;
  common::step_watchdog& dog;

  /// Whether it is one of `graphs`.
  [[nodiscard]] bool measures(const measured_graph& g) const noexcept {
    return std::any_of(graphs.begin(), graphs.end(),
                       [&](const measured_graph& one) { return &one == &g; });
  }

  using clock = std::chrono::steady_clock;
  clock::time_point begun = clock::now();
  [[nodiscard]] double now() const {
    return std::chrono::duration<double>(clock::now() - begun).count();
  }
  /// For what replays graphs to call: the GPU does not hang.
  [[nodiscard]] std::function<void()> progressed() const {
    return [&d = dog] { d.restart(); };
  }
};

/// The steps of a part, with progress on stderr, until its time is over. Every 20 s they look
/// whether other work runs on the GPU, and note it in the report.
class steps {
public:
  steps(session& s, part_report& report, std::size_t all, double until);
  ~steps();
  steps(const steps&) = delete;
  steps& operator=(const steps&) = delete;

  /// Whether there is time for another step; then its name is shown, and the watchdog restarted,
  /// for so long without progress.
  [[nodiscard]] bool begin(const std::string& what,
                           std::chrono::seconds most = std::chrono::seconds{120});

private:
  static constexpr double between_looks = 20; ///< seconds

  void note_other_work(const std::string& when);

  session& session_;
  part_report& report_;
  std::size_t all_;
  double until_;
  double begun_;
  double looked_;         ///< when it last looked whether the GPU is idle
  std::size_t found_ = 0; ///< how often it was not
  std::size_t done_ = 0;
  double shown_ = -1e9;
  bool terminal_;
};

/// As cuda::find_other_work, within a time limit.
[[nodiscard]] std::string look_for_other_work(const gsched::cuda::gpu& gpu,
                                              common::step_watchdog& dog);

/// What the options choose for a part, before anything is measured.
/// Errors   bad_option for --sms that no partition has; unknown_name for --beside of no graph.
void check_latency(const options& o, const places& on);
void check_pairs(const session& s);
/// Errors   bad_option for --split that leaves the probe no SM.
void check_probes(const options& o, const places& on);

[[nodiscard]] part_report measure_latency(session& s, double until);
[[nodiscard]] part_report measure_pairs(session& s, double until);
[[nodiscard]] part_report measure_starts(session& s, double until);
[[nodiscard]] part_report measure_probes(session& s, double until);
[[nodiscard]] part_report measure_kernels(session& s, double until);
[[nodiscard]] part_report measure_counters(session& s, double until);

} // namespace measure
