// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/latest_mean.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace gsched {

/// The time of a model's real-time jobs without other work on the device, as a multiple of their
/// expected time: the mean over the jobs that ran alone. If there are too few of these, or none
/// recently, the mean of the shortest in each `window` jobs, because some jobs arrive when the
/// running work is about to end. A single shortest job would vary by several percent, and with it
/// every comparison.
///
/// Cost     O(1); never allocates.
/// Threads  one owner; no locking. The state depends on the calls alone.
class time_alone {
public:
  static constexpr std::uint32_t enough = 8; ///< jobs alone that are needed for their mean
  static constexpr std::uint32_t window = 64;

  /// A job took `ratio` times its expected time; `alone`: nothing ran beside it.
  void learn(double ratio, bool alone) noexcept {
    if (alone) {
      alone_.learn(ratio, remembered);
      last_alone_ = jobs_;
    }
    least_ = std::min(least_, ratio);
    ++jobs_;
    if (jobs_ % window != 0) return;
    shortest_.learn(least_, remembered_windows);
    least_ = std::numeric_limits<double>::infinity();
  }

  /// Whether enough jobs were seen for ratio() to be meaningful.
  [[nodiscard]] bool known() const noexcept { return knows_alone() || jobs_ >= window / 4; }
  /// Requires known().
  [[nodiscard]] double ratio() const noexcept {
    if (knows_alone()) return alone_.mean();
    return shortest_.seen() > 0 ? shortest_.mean() : least_;
  }
  [[nodiscard]] std::uint64_t jobs() const noexcept { return jobs_; }

private:
  static constexpr double remembered = 128;
  static constexpr std::uint64_t recent = 1024; ///< number of jobs
  static constexpr double remembered_windows = 8;

  [[nodiscard]] bool knows_alone() const noexcept {
    return alone_.seen() >= enough && jobs_ - last_alone_ <= recent;
  }

  latest_mean alone_;
  latest_mean shortest_;                                   ///< of each window
  double least_ = std::numeric_limits<double>::infinity(); ///< in this window
  std::uint64_t jobs_ = 0;
  std::uint64_t last_alone_ = 0; ///< value of jobs_
};

} // namespace gsched
