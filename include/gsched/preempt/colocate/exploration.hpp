// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/latest_mean.hpp>
#include <gsched/core/time.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gsched {

/// The measurements of an ended real-time job.
struct real_time_job {
  duration expected{}; ///< expected time of its segments
  duration took{};     ///< time of its segments on their lanes
  duration latency{};  ///< from its arrival to its end
};

/// Learns by measurement what may run beside real-time jobs, at the cost of about one job in a
/// hundred.
///
/// The slow-down of a job is the time of its segments on their lanes relative to their time with
/// nothing beside them. It excludes waiting for other jobs, so few jobs suffice. The effect on
/// latency follows from the load: jobs that wait for one another are also delayed by the slow-down
/// of the others. Each choice is tried for one job at a time, except a choice that is presumed to
/// gain: that one is tried first, for consecutive jobs until the result is clear. A choice is given
/// up as soon as it clearly exceeds the tolerance or gains nothing, for a longer time at each
/// failure. A choice that clearly passes is kept and monitored in the same way.
///
/// Source   waiting time in an M/G/1 queue (Pollaczek, Khinchine), and its growth with the service
///          time.
/// Order    choice 0 is nothing: it is used until another one is found to gain.
/// Units    slow-downs, speeds and gains are fractions of the time with nothing beside: 0 is none.
/// Cost     O(choices) a job; no allocation after construction.
/// Threads  one owner; no locking. The state depends on the calls alone.
class exploration {
public:
  static constexpr std::uint32_t first_jobs = 20; ///< jobs with nothing beside them, for comparison
  static constexpr std::uint32_t jobs_a_trial = 100; ///< one of these is a trial
  static constexpr double least_gain = 0.01;         ///< fraction of the device's total work

  explicit exploration(std::size_t choices = 1, double tolerance = 0.05)
      : choices_(std::max<std::size_t>(choices, 1)), tolerance_(tolerance) {}

  /// The choice that is to run beside real-time jobs now. It changes only in ended().
  [[nodiscard]] std::size_t current() const noexcept { return current_; }
  /// Increases with each change of current().
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }

  /// The speed that jobs may reach with that choice; the largest counts. Set-up.
  void may_reach(std::size_t which, double speed) noexcept {
    choices_[which].most = std::max(choices_[which].most, speed);
  }
  /// The choice is unlikely to hurt and likely to gain. Set-up.
  void presume(std::size_t which) noexcept { presumed_ = which; }
  /// The speed of work with that choice: measured, or that of may_reach().
  [[nodiscard]] double speed(std::size_t which) const noexcept {
    const choice& c = choices_[which];
    return c.expected_ns > 0 ? c.expected_ns / c.took_ns : c.most;
  }

  /// Time has passed. `real_time`: with real-time jobs; `others`: with best-effort jobs that could
  /// have run beside them.
  void passed(duration time, bool real_time, bool others) noexcept {
    if (choices_.size() == 1) return;
    const auto ns = static_cast<double>(time.count());
    choices_[current_].active_ns += real_time ? ns : 0;
    if (current_ != 0) return;
    time_ns_ += ns;
    active_ns_ += real_time ? ns : 0;
    free_ns_ += real_time && others ? ns : 0;
    if (time_ns_ < 1e10) return; // older time loses weight
    for (double* x : {&time_ns_, &active_ns_, &free_ns_, &open_work_ns_}) *x /= 2;
  }

  /// Best-effort work has ended, of `work` time on the whole device: under choice `which` beside
  /// real-time jobs, where it took `took`; 0: between real-time jobs.
  void did(std::size_t which, duration work, duration took) noexcept {
    if (choices_.size() == 1) return;
    if (which == 0) {
      if (current_ == 0) open_work_ns_ += static_cast<double>(work.count());
      return;
    }
    choice& c = choices_[which];
    c.work_ns += static_cast<double>(work.count());
    c.expected_ns += static_cast<double>(work.count());
    c.took_ns += std::max(1.0, static_cast<double>(took.count()));
    if (c.took_ns < 1e9) return;
    c.expected_ns /= 2;
    c.took_ns /= 2;
  }

  /// A real-time job has ended whose first dispatch was at epoch `began`.
  void ended(std::uint64_t began, const real_time_job& j) noexcept {
    if (choices_.size() == 1 || j.expected <= duration::zero()) return;
    ++jobs_;
    const bool whole = began == epoch_; // all of it under one choice
    if (whole) measure(j);
    if (current_ == stays_) {
      if (stays_ != 0 && verdict(stays_) == is::bad) return give_up(stays_);
      if (stays_ == 0 && presumed_ != 0 && choices_[0].slower.seen() >= first_jobs &&
          may_try(presumed_))
        return change(presumed_);
      if (trials_ * jobs_a_trial + first_jobs + jobs_a_trial > jobs_ ||
          choices_[0].slower.seen() < first_jobs / 2)
        return;
      if (const std::size_t next = next_to_try(); next != stays_) change(next);
      return;
    }
    ++trials_; // every job that ends during a trial may have been delayed
    if (!whole) return;
    const std::size_t tried = current_;
    const is v = tried == 0 ? is::open : verdict(tried);
    if (v == is::bad) return give_up(tried);
    if (v == is::good && (stays_ == 0 || net(tried) > net(stays_))) stays_ = tried;
    if (v == is::open && tried == presumed_ && stays_ == 0) return;
    change(stays_);
  }

  /// The number of jobs that ended during trials.
  [[nodiscard]] std::uint64_t trials() const noexcept { return trials_; }
  /// The slow-down of segments of real-time jobs under that choice.
  [[nodiscard]] double slow_down(std::size_t which) const noexcept {
    const double none = choices_[0].slower.mean();
    return none > 0 ? choices_[which].slower.mean() / none - 1 : 0;
  }
  /// The factor by which latencies grow more than segments, because jobs wait for one another.
  [[nodiscard]] double amplified() const noexcept {
    const double waits = latency_ns_ > 0 ? std::max(0.0, 1 - took_ns_ / latency_ns_) : 0;
    return 1 + waits / std::max(0.1, 1 - load());
  }
  /// The net gain of the device's total work: the work done beside, less the additional time of
  /// real-time jobs.
  [[nodiscard]] double net(std::size_t which) const noexcept {
    const choice& c = choices_[which];
    const double beside = c.active_ns > 0 ? c.work_ns / c.active_ns : 0;
    return load() * (beside - slow_down(which) * worth());
  }
  /// The upper limit of net().
  [[nodiscard]] double bound(std::size_t which) const noexcept {
    return time_ns_ > 0 ? speed(which) * free_ns_ / time_ns_ : 0;
  }

private:
  enum class is : std::uint8_t { open, good, bad };
  static constexpr double remembered = 128;    ///< jobs with nothing beside them
  static constexpr double recent = 32;         ///< jobs under each other choice
  static constexpr double enough = 8;          ///< jobs to keep a choice
  static constexpr double too_many = 32;       ///< jobs without a clear result
  static constexpr double least_bound = 0.002; ///< gain that justifies a trial

  struct choice {
    latest_mean slower;
    double most = 0;
    double work_ns = 0, active_ns = 0;   ///< since the current trial began
    double expected_ns = 0, took_ns = 0; ///< of work beside real-time jobs
    std::uint64_t not_before = 0;        ///< number of jobs
    std::uint64_t rest = 512;            ///< jobs until the next trial, after the next failure
  };

  [[nodiscard]] double load() const noexcept { return time_ns_ > 0 ? active_ns_ / time_ns_ : 0; }
  /// The work that a unit of the device's time yields outside real-time jobs.
  [[nodiscard]] double worth() const noexcept {
    const double open = time_ns_ - active_ns_;
    return open > 0 ? std::clamp(open_work_ns_ / open, 1.0, 2.0) : 1;
  }

  void measure(const real_time_job& j) noexcept {
    const auto took = static_cast<double>(j.took.count());
    choices_[current_].slower.learn(took / static_cast<double>(j.expected.count()),
                                    current_ == 0 ? remembered : recent);
    if (current_ != 0) return;
    took_ns_ += took;
    latency_ns_ += static_cast<double>(std::max(j.latency, j.took).count());
    if (latency_ns_ < 1e9) return;
    took_ns_ /= 2;
    latency_ns_ /= 2;
  }

  [[nodiscard]] is verdict(std::size_t which) const noexcept {
    const choice& c = choices_[which];
    const double n = c.slower.seen();
    if (n == 0) return is::open;
    const latest_mean& none = choices_[0].slower;
    // A few values do not show their spread.
    const double differ = std::max({0.01, none.deviation(), n < enough ? 0 : c.slower.deviation()});
    const double chance = 2 * differ / std::sqrt(n) + 2 * differ / std::sqrt(none.seen());
    const double slower = slow_down(which);
    const double most = tolerance_ / amplified();
    if (slower - chance > most) return is::bad;
    if (n < enough) return is::open;
    // The presumed choice is given up when it looks too slow, so that few jobs pay for it, or when
    // it loses; other choices have to prove a gain.
    if (which == presumed_)
      return slower > most || net(which) + load() * chance / 2 < 0 ? is::bad : is::good;
    if (slower + chance / 2 <= most && net(which) - load() * chance / 2 >= least_gain)
      return is::good;
    if (net(which) + load() * chance < least_gain) return is::bad;
    if (which == stays_) return slower > most + chance / 2 ? is::bad : is::open;
    return n >= too_many ? is::bad : is::open;
  }

  [[nodiscard]] bool may_try(std::size_t which) const noexcept {
    return jobs_ >= choices_[which].not_before &&
           bound(which) >= (which == presumed_ ? least_bound : least_gain);
  }
  [[nodiscard]] std::size_t next_to_try() noexcept {
    for (std::size_t i = 1; i < choices_.size(); ++i) {
      turn_ = (turn_ + 1) % choices_.size();
      if (turn_ == stays_) continue;
      if (turn_ == 0) return 0; // for comparison
      if (may_try(turn_)) return turn_;
    }
    return stays_;
  }

  void give_up(std::size_t which) noexcept {
    choice& c = choices_[which];
    c.slower = {};
    c.work_ns = c.active_ns = 0;
    c.not_before = jobs_ + c.rest;
    c.rest = std::min<std::uint64_t>(4 * c.rest, std::numeric_limits<std::uint32_t>::max());
    if (which == stays_) stays_ = 0;
    change(stays_);
  }

  void change(std::size_t to) noexcept {
    if (to == current_) return;
    current_ = to;
    ++epoch_;
  }

  std::vector<choice> choices_;
  double tolerance_;
  /// total time with nothing beside; of it with real-time jobs; of it with others too
  double time_ns_ = 0, active_ns_ = 0, free_ns_ = 0;
  double open_work_ns_ = 0;             ///< best-effort work between real-time jobs
  double took_ns_ = 0, latency_ns_ = 0; ///< of jobs with nothing beside them
  std::uint64_t jobs_ = 0;
  std::uint64_t trials_ = 0;
  std::uint64_t epoch_ = 0;
  std::size_t current_ = 0;
  std::size_t stays_ = 0; ///< the choice outside trials
  std::size_t turn_ = 0;
  std::size_t presumed_ = 0; ///< 0: none
};

} // namespace gsched
