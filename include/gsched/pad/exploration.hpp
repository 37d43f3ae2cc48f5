// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched {

/// How long the jobs of one kind take while nothing runs beside them, from their first segment to
/// their end.
class solo_time {
public:
  void learn(duration took) noexcept {
    const auto ns = std::max(1.0, static_cast<double>(took.count()));
    seen_ = std::min(seen_ + 1, 256.0);
    if (seen_ > 1) spread_ += (std::abs(ns / mean_ - 1) - spread_) / seen_;
    mean_ += (ns - mean_) / seen_;
  }
  [[nodiscard]] bool known() const noexcept { return seen_ >= 4; }
  [[nodiscard]] double mean_ns() const noexcept { return mean_; }
  /// The mean distance from the mean, as a part of it.
  [[nodiscard]] double spread() const noexcept { return spread_; }

private:
  double seen_ = 0;
  double mean_ = 0;
  double spread_ = 0;
};

/// Finds by measuring what may run beside real-time jobs. Each choice is tried for a few jobs; of
/// those under which jobs take no longer than `tolerance` beyond their time alone, on average, the
/// one with the most work done beside them stays. The others, nothing among them, are tried again
/// for one job in 64, and a choice that hurts at once is left at once.
///
/// Order    choice 0 is nothing, and what stays if no other gains.
/// Units    slow-downs are parts of the time alone: 0 is none.
/// Cost     O(choices) a job; no allocation after construction.
/// Threads  one owner; no locking. Depends on the calls alone.
class exploration {
public:
  explicit exploration(std::size_t choices = 1, double tolerance = 0.05)
      : choices_(std::max<std::size_t>(choices, 1)), tolerance_(tolerance) {}

  /// What is to run beside real-time jobs now. It changes only in `ended`.
  [[nodiscard]] std::size_t current() const noexcept { return current_; }
  /// Rises with each change: two equal ones say that nothing has changed in between.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }

  /// Real-time jobs were active for so long, and beside them work of so much device time ended.
  void gained(duration active, duration work) noexcept {
    choice& c = choices_[current_];
    c.active += static_cast<double>(active.count());
    c.work += static_cast<double>(work.count());
    if (c.active < 1e9) return; // the past counts less and less
    c.active /= 2;
    c.work /= 2;
  }

  /// A real-time job has ended that was dispatched first at that epoch, and took so long since.
  void ended(solo_time& alone, std::uint64_t began, duration took) noexcept {
    if (choices_.size() == 1) return;
    if (began == epoch_) measure(alone, took);
    ++since_trial_;
    if (trying_) {
      if (choices_[current_].stopped || --left_ == 0) settle();
    } else if (choices_[current_].stopped || !admissible(current_)) {
      settle();
    } else if (since_trial_ >= (next_untried() != 0 ? trial : 64 * trial)) {
      start_trial();
    }
  }

  /// Mean of the latest jobs under that choice.
  [[nodiscard]] double slow_down(std::size_t which) const noexcept { return choices_[which].mean; }
  /// Device time of work beside real-time jobs in each unit of their time.
  [[nodiscard]] double gain(std::size_t which) const noexcept {
    return choices_[which].active > 0 ? choices_[which].work / choices_[which].active : 0;
  }

private:
  static constexpr std::uint32_t trial = 8; ///< jobs
  static constexpr double remembered = 256; ///< jobs

  struct choice {
    double seen = 0;
    double mean = 0;
    double harm = 0; ///< of late, beyond what is tolerated and what jobs differ by anyway
    double active = 0;
    double work = 0;
    bool stopped = false;
  };

  void measure(solo_time& alone, duration took) noexcept {
    if (current_ == 0) return alone.learn(took);
    if (!alone.known()) return;
    spread_ += (alone.spread() - spread_) / 64;
    choice& c = choices_[current_];
    const double slower = static_cast<double>(took.count()) / alone.mean_ns() - 1;
    c.seen = std::min(c.seen + 1, remembered);
    c.mean += (slower - c.mean) / c.seen;
    c.harm = std::max(0.0, c.harm + slower - tolerance_ - alone.spread() / 2);
    if (c.harm > 4 * (tolerance_ + alone.spread())) c.stopped = true;
  }

  [[nodiscard]] bool admissible(std::size_t i) const noexcept {
    const choice& c = choices_[i];
    // What stays is not given up for what may be chance.
    const double chance = i == current_ && !trying_ ? 2 * spread_ / std::sqrt(c.seen) : 0;
    return i == 0 || (!c.stopped && c.seen >= trial / 2 && c.mean <= tolerance_ + chance);
  }

  /// A choice that was never tried; 0 if there is none.
  [[nodiscard]] std::size_t next_untried() const noexcept {
    for (std::size_t i = 1; i < choices_.size(); ++i)
      if (choices_[i].seen == 0 && !choices_[i].stopped) return i;
    return 0;
  }

  void start_trial() noexcept {
    std::size_t next = next_untried();
    if (next == 0) {
      turn_ = (turn_ + 1) % choices_.size();
      if (turn_ == current_) turn_ = (turn_ + 1) % choices_.size();
      next = turn_;
    }
    choice& c = choices_[next];
    c.stopped = false;
    c.harm = 0;
    c.seen = std::min(c.seen, static_cast<double>(trial)); // the new weighs as much as the old
    trying_ = true;
    left_ = trial;
    change(next);
  }

  /// Ends a trial, and goes to what is best by now.
  void settle() noexcept {
    since_trial_ = 0;
    std::size_t best = 0;
    for (std::size_t i = 1; i < choices_.size(); ++i)
      if (admissible(i) && gain(i) > gain(best)) best = i;
    trying_ = false;
    change(best);
  }

  void change(std::size_t to) noexcept {
    if (to == current_) return;
    current_ = to;
    ++epoch_;
  }

  std::vector<choice> choices_;
  double tolerance_;
  double spread_ = 0; ///< of the latest jobs' times alone
  std::size_t current_ = 0;
  std::size_t turn_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint32_t since_trial_ = 0;
  std::uint32_t left_ = 0;
  bool trying_ = false;
};

} // namespace gsched
