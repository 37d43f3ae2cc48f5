// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/latest_mean.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace gsched {

/// How long real-time jobs of one model take when nothing runs beside them, as a multiple of what
/// was expected of them: the mean of jobs that are known to have run so. Where there are too few of
/// these, the shortest of all jobs lately: some come when what runs is about to end.
///
/// Cost     O(1); never allocates.
/// Threads  one owner; no locking. Depends on the calls alone.
class time_alone {
public:
  static constexpr std::uint32_t enough = 8; ///< jobs that were alone, for their mean
  static constexpr std::uint32_t window = 64;

  /// A job took `ratio` times as long as expected; `alone`: nothing ran beside it.
  void learn(double ratio, bool alone) noexcept {
    if (alone) alone_.learn(ratio, remembered);
    least_ = std::min(least_, ratio);
    ++jobs_;
    if (jobs_ % window != 0) return;
    before_ = least_;
    least_ = std::numeric_limits<double>::infinity();
  }

  /// There were enough jobs for ratio() to mean something.
  [[nodiscard]] bool known() const noexcept {
    return alone_.seen() >= enough || jobs_ >= window / 4;
  }
  /// Only if known().
  [[nodiscard]] double ratio() const noexcept {
    return alone_.seen() >= enough ? alone_.mean() : std::min(before_, least_);
  }
  [[nodiscard]] std::uint64_t jobs() const noexcept { return jobs_; }

private:
  static constexpr double remembered = 128;

  latest_mean alone_;
  double least_ = std::numeric_limits<double>::infinity();  ///< in this window ...
  double before_ = std::numeric_limits<double>::infinity(); ///< ... and in the one before
  std::uint64_t jobs_ = 0;
};

} // namespace gsched
