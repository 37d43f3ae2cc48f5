// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace gsched {

/// Forecasts when a job will end, for an admission by deadline: its own work times `margin`, plus
/// the work ahead of it divided by `overlap`. Both are learned from finished jobs, such that a
/// fraction `late` of the jobs ends later than forecast. A late job raises the margin by `step` (or
/// lowers the overlap, if others were ahead of it); any other job lowers the margin (or raises the
/// overlap) by step * late / (1 - late). Forecasts are for a job that just meets its deadline. Most
/// jobs have slack, so fewer jobs miss their deadline than end later than forecast.
///
/// The overlap grows by `search` a job until the first late job. A job that met fewer than half as
/// many jobs as the overlap says does not raise it. The margin decays towards 1 while no job ends;
/// otherwise a margin that refuses all jobs would never change.
///
/// Cost     O(1) each; no allocation.
/// Threads  one owner; no locking.
class deadline_forecast {
public:
  static constexpr double late = 0.02;
  static constexpr double step = 0.1;
  static constexpr double least_overlap = 0.1;
  static constexpr double search = 1.03;
  static constexpr duration forgets = std::chrono::seconds{1}; ///< half-life of the margin above 1

  /// The forecast for one job.
  struct forecast {
    duration own{};
    duration ahead{};
    std::size_t others = 0; ///< number of active jobs
  };

  explicit deadline_forecast(double overlap) noexcept : overlap_(overlap) {}

  [[nodiscard]] double overlap() const noexcept { return overlap_; }
  [[nodiscard]] double margin(time_point now) const noexcept {
    const duration idle = std::max(now - last_end_, duration{});
    return 1 + (margin_ - 1) / (1 + ratio(idle, forgets));
  }
  /// The time that this much work of one job takes if no other job is ahead of it.
  [[nodiscard]] duration own(duration work, time_point now) const noexcept {
    return times(work, margin(now));
  }
  /// The delay that this much work causes for other jobs.
  [[nodiscard]] duration share(duration work) const noexcept { return times(work, 1 / overlap_); }

  /// A job has finished after `time`.
  void took(duration time, const forecast& f, time_point now) noexcept {
    const bool was_late = time > f.own + f.ahead;
    const double back = 1 + step * late / (1 - late);
    const double up = searches_ ? search : back;
    const double work_ahead = static_cast<double>(f.ahead.count()) * overlap_;
    if (!(work_ahead * 4 >= static_cast<double>(f.own.count()))) {
      margin_ = was_late ? margin(now) * (1 + step) : std::max(1.0, margin(now) / back);
      last_end_ = now;
    } else if (was_late) {
      overlap_ = std::max(least_overlap, overlap_ / (1 + step));
      searches_ = false;
    } else if (static_cast<double>(2 * f.others) >= overlap_) {
      overlap_ *= up;
    }
  }

private:
  [[nodiscard]] static double ratio(duration a, duration b) noexcept {
    return static_cast<double>(a.count()) / static_cast<double>(b.count());
  }
  [[nodiscard]] static duration times(duration work, double by) noexcept {
    constexpr double longest = 4e18;
    const double ns = static_cast<double>(std::max(work, duration{}).count()) * by;
    return duration{static_cast<duration::rep>(std::min(ns, longest))};
  }

  double overlap_;
  double margin_ = 1;
  bool searches_ = true; ///< no job was late behind others yet
  time_point last_end_{};
};

} // namespace gsched
