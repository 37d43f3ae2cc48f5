// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/latest_mean.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace gsched {

/// How long real-time jobs of one model take when nothing runs beside them, as a multiple of what
/// was expected of them: the mean of jobs that are known to have run so. Where there are too few of
/// these, or none was for long, the mean of the shortest of each `window` jobs: some come when what
/// runs is about to end. The last of them alone would vary by several in a hundred, and with it all
/// that is compared.
///
/// Cost     O(1); never allocates.
/// Threads  one owner; no locking. Depends on the calls alone.
class time_alone {
public:
  static constexpr std::uint32_t enough = 8; ///< jobs that were alone, for their mean
  static constexpr std::uint32_t window = 64;

  /// A job took `ratio` times as long as expected; `alone`: nothing ran beside it.
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

  /// There were enough jobs for ratio() to mean something.
  [[nodiscard]] bool known() const noexcept { return knows_alone() || jobs_ >= window / 4; }
  /// Only if known().
  [[nodiscard]] double ratio() const noexcept {
    if (knows_alone()) return alone_.mean();
    return shortest_.seen() > 0 ? shortest_.mean() : least_;
  }
  [[nodiscard]] std::uint64_t jobs() const noexcept { return jobs_; }

private:
  static constexpr double remembered = 128;
  static constexpr std::uint64_t recent = 1024; ///< jobs
  static constexpr double remembered_windows = 8;

  [[nodiscard]] bool knows_alone() const noexcept {
    return alone_.seen() >= enough && jobs_ - last_alone_ <= recent;
  }

  latest_mean alone_;
  latest_mean shortest_;                                   ///< of each window
  double least_ = std::numeric_limits<double>::infinity(); ///< in this one
  std::uint64_t jobs_ = 0;
  std::uint64_t last_alone_ = 0; ///< of jobs_
};

} // namespace gsched
