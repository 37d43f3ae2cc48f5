// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/inline_vector.hpp>
#include <gsched/core/latest_line.hpp>
#include <gsched/core/latest_mean.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace gsched {

/// The targets of leaving SMs unused by long best-effort kernels. The first two are fractions of
/// the time that real-time jobs take alone. The third is a fraction of the best-effort throughput
/// in the time that real-time jobs leave when they run alone.
struct reserve_target {
  double slow_down = 0.10; ///< upper limit of the mean slow-down of real-time jobs
  double tail = 0.50;      ///< upper limit for the slowest in a hundred
  /// lower limit of the kept throughput; an estimate with an error of up to 0.05
  double share = 0.80;
};

/// Learns how many SMs the long kernels of one best-effort model leave to real-time work.
///
/// The choice is the size with the most best-effort throughput among those whose slow-down of
/// real-time jobs is within the target. If no size within `share` reaches the target, it is the
/// size with the least slow-down among those within `share`; among sizes that do not differ
/// measurably, the one with the most throughput.
///
/// One size is tried at a time: first the largest that is likely to be within `share`, then smaller
/// ones while they reach the target, or larger ones until one does. A size is rated once its
/// slow-down is clearly on one side of the target, or after most_jobs. If none reaches the target,
/// each size within `share` is tried for compared_jobs, or until it is clearly worse than another
/// one. If it is then open whether a size with more throughput is worse than the one with the least
/// slow-down, both are tried further, alternately, until it is clear, or for most_compared_jobs
/// each.
///
/// The slow-down that counts is the mean over all real-time jobs, whether long work ran at their
/// arrival or not. The tail is that of the jobs at whose arrival long work ran: their mean and two
/// standard deviations. It does not count if these are fewer than one in a hundred. The remaining
/// time of the running work varies between jobs and does not depend on the size. So slow-downs are
/// compared at the mean of the remaining time (latest_line), and few jobs suffice.
///
/// The choice is then monitored. When its slow-down exceeds 1.25 times the target, or its share is
/// clearly below `share`, the sizes are rated again, and the measured speeds of the others are
/// dropped. After recheck_jobs, the next smaller size is tried again, or, if none reached the
/// target, the others alternately, each until it is clearly worse. Each recheck that changes
/// nothing doubles the time to the next one.
///
/// Differs  from gpu-lets (Choi et al., USENIX ATC 2022), which sizes partitions in advance from
///          profiles and request rates: here only best-effort kernels have a partition, real-time
///          work uses every SM, and the size follows measurements in service.
/// Units    slow-downs and shares as in reserve_target. Index 0 is no SM, i + 1 is sizes[i].
/// Order    for a stationary mix in which every job arrives while such work runs, the choice is
///          made within most_jobs for each size and for none; if none reaches the target, within
///          compared_jobs more for each and most_compared_jobs for each of two; in each case after
///          least_segments with no SM left. No trial lasts longer than longest_trial measured
///          real-time jobs.
/// Cost     O(sizes), at most five; no allocation.
/// Threads  one owner; no locking. The state depends on the calls alone.
class reserve_choice {
public:
  static constexpr std::size_t most_sizes = 4;
  static constexpr std::uint32_t few_jobs = 6;       ///< for a clear result
  static constexpr std::uint32_t enough_jobs = 10;   ///< to accept a size
  static constexpr std::uint32_t most_jobs = 32;     ///< jobs beside such work, to rate a size
  static constexpr std::uint32_t compared_jobs = 64; ///< jobs beside such work, to compare sizes
  /// the same, for two sizes that are close
  static constexpr std::uint32_t most_compared_jobs = 256;
  static constexpr std::uint32_t longest_trial = 256; ///< measured real-time jobs of any kind
  static constexpr std::uint32_t least_segments = 8;  ///< to know a speed
  static constexpr std::uint64_t recheck_jobs = 512;
  static constexpr std::uint64_t longest_rest = std::uint64_t{1} << 16;

  /// `sizes` rise and are below `all`, the SMs of the device.
  reserve_choice(std::span<const sm_count> sizes, sm_count all, const reserve_target& to)
      : target_(to) {
    assert(sizes.size() <= most_sizes);
    sizes_.push_back({});
    for (const sm_count s : sizes) {
      size_facts f;
      f.likely_share = 1 - static_cast<double>(s.count()) / all.count();
      sizes_.push_back(f);
      if (f.likely_share >= target_.share) start_ = sizes_.size() - 1;
    }
    if (start_ == 0 && sizes_.size() > 1) start_ = 1;
  }

  /// The size for work that is dispatched now.
  [[nodiscard]] std::size_t current() const noexcept { return current_; }
  /// The last choice; 0 before the first one.
  [[nodiscard]] std::size_t chosen() const noexcept { return stays_; }
  /// Whether no size is being tried.
  [[nodiscard]] bool concluded() const noexcept { return stage_ == stage::concluded; }

  /// A real-time job has ended at whose arrival work of size `which` ran, with `left` of it
  /// remaining, as time on the whole device. The job took longer than alone by this fraction.
  void found(std::size_t which, duration left, double slow_down) noexcept {
    const auto ns = static_cast<double>(left.count());
    sizes_[which].slower.learn(ns, slow_down, remembered);
    ahead_.learn(ns, 0, remembered);
    count(true);
  }
  /// A real-time job has ended at whose arrival no such work ran.
  void found_none() noexcept { count(false); }
  /// A real-time job has ended at whose arrival work of another model, which leaves fewer SMs, ran
  /// too: it does not show the effect of this model's work.
  void found_other() noexcept {
    ++jobs_;
    ++tried_;
    step();
  }

  /// A segment of size `which` has ended. `work`: its time on the whole device; `took`: its time
  /// with no real-time job beside it, unset if one was beside it. `expected`: a real-time job was
  /// expected when the segment was submitted; otherwise long segments are queued behind one another
  /// and leave no SM.
  void did(std::size_t which, duration work, std::optional<duration> took, bool expected) noexcept {
    lengths_.learn(work);
    if (!took) return;
    if (expected)
      sizes_[which].done.learn(work, *took);
    else if (which == 0)
      unhindered_.learn(work, *took);
    expected_.learn(*took, expected);
    if (stage_ != stage::concluded) step();
  }

  /// Called for each real-time job: the time without real-time jobs before it, and its time alone.
  void cycle(duration without, duration alone) noexcept {
    without_.learn(static_cast<double>(without.count()), remembered);
    alone_.learn(static_cast<double>(alone.count()), remembered);
  }

  /// The mix of models has changed, so learned values may not hold. The last choice is tried first.
  void forget() noexcept {
    if (stage_ == stage::concluded) start_ = stays_;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const double likely = sizes_[i].likely_share;
      sizes_[i] = {};
      sizes_[i].likely_share = likely;
    }
    unhindered_ = {};
    stage_ = stage::measuring;
    rechecks_ = false;
    rest_ = recheck_jobs;
    change(0);
  }

  /// The mean slow-down of jobs at whose arrival work of size `which` runs.
  [[nodiscard]] double slow_down(std::size_t which) const noexcept {
    return sizes_[which].slower.mean_at(ahead_.mean_cause());
  }
  /// Work done in a unit of time under `which`, as time on the whole device: measured, or
  /// estimated.
  [[nodiscard]] double speed(std::size_t which) const noexcept {
    const work_done& d = sizes_[which].done;
    return d.segments > 0 ? d.speed(lengths_) : sizes_[which].likely_share;
  }
  /// The best-effort throughput under `which`, as a fraction of that in the time that real-time
  /// jobs leave when they run alone; measured, or estimated. It is the work done at that speed
  /// while no real-time job is present but one is expected, and the work that runs on beside
  /// real-time jobs, over the whole time. Above 1 if this exceeds what real-time jobs cost by
  /// taking longer.
  [[nodiscard]] double share(std::size_t which) const noexcept {
    const double ratio =
        is_measured(which) ? speed(which) / unhindered_speed() : sizes_[which].likely_share;
    const double in_force = expected_.part();
    const double slower = 1 - in_force * (1 - ratio);
    const double without = without_.mean();
    if (without <= 0) return slower;
    const double beside = found_part() * ahead_.mean_cause();
    const double took = without + alone_.mean() * (1 + overall(which));
    const double left = without / (without + alone_.mean());
    return (slower * without + beside) / took / left;
  }
  /// The fraction of real-time jobs at whose arrival such work runs.
  [[nodiscard]] double found_part() const noexcept {
    return jobs_ < few_jobs ? 1 : found_ / (found_ + none_);
  }
  /// The number of real-time jobs that arrived beside such work while a size other than the choice
  /// was tried.
  [[nodiscard]] std::uint64_t trials() const noexcept { return trials_; }

private:
  enum class stage : std::uint8_t {
    measuring, ///< measures the speed of best-effort work on all SMs
    rating,
    comparing, ///< compares sizes beyond the target
    concluded
  };
  enum class is : std::uint8_t { open, within, beyond, costly };
  static constexpr std::uint32_t most_segments = 1024; ///< segments that carry weight
  /// jobs that carry weight, for each size
  static constexpr double remembered = most_compared_jobs;
  static constexpr double counted = 256;       ///< jobs that carry weight in found_part
  static constexpr double alike = 0.02;        ///< slow-downs that differ by less are equal
  static constexpr double alike_share = 0.01;  ///< the same, for shares
  static constexpr double least_spread = 0.02; ///< of slow-downs around the line
  /// Trials of two close sizes in one comparison, also if few jobs arrive beside such work.
  static constexpr std::uint32_t most_more_trials = 2 * most_compared_jobs / compared_jobs;
  /// multiple of the target at which a choice is given up
  static constexpr double clearly_more = 1.25;
  static constexpr double share_margin = 0.03; ///< the same, for the share
  /// The fraction of jobs that arrive beside such work. Below half of it the tail does not count,
  /// because the slowest in a hundred are other jobs; only above it can a choice be rated within
  /// the target again.
  static constexpr double tail_counts = 0.02;
  /// A fraction of the unhindered speed: below it, other work shares the device.
  static constexpr double shared_speed = 0.85;

  /// Classes of segments by length: below 128 us of work on the whole device, 256 us, and so on.
  static constexpr std::size_t length_classes = 6;
  [[nodiscard]] static std::size_t length_class(duration work) noexcept {
    constexpr std::uint64_t least_ns = std::uint64_t{1} << 17;
    const auto ns = static_cast<std::uint64_t>(std::max(duration::zero(), work).count());
    return std::min(static_cast<std::size_t>(std::bit_width(ns / least_ns)), length_classes - 1);
  }
  /// The work in segments of each length, with or without a real-time job beside them.
  struct work_lengths {
    std::array<double, length_classes> work_ns{};
    double all_ns = 0;

    void learn(duration work) noexcept {
      const auto ns = static_cast<double>(work.count());
      work_ns[length_class(work)] += ns;
      all_ns += ns;
      if (all_ns <= 1e9) return; // older segments lose weight
      all_ns /= 2;
      for (double& each : work_ns) each /= 2;
    }
  };
  /// Segments without a real-time job beside them. Long segments rarely have none, and lose more
  /// from unused SMs than short ones, so speeds are weighted by the lengths of all segments.
  struct work_done {
    struct part {
      double work_ns = 0, took_ns = 0;
    };
    std::array<part, length_classes> parts{};
    part all{};
    std::uint32_t segments = 0;

    void learn(duration work, duration took) noexcept {
      segments = std::min(segments + 1, most_segments);
      for (part* const p : {&parts[length_class(work)], &all}) {
        p->work_ns += static_cast<double>(work.count());
        p->took_ns += std::max(1.0, static_cast<double>(took.count()));
      }
      if (all.took_ns <= 1e9) return; // older segments lose weight
      all = {all.work_ns / 2, all.took_ns / 2};
      for (part& p : parts) p = {p.work_ns / 2, p.took_ns / 2};
    }
    /// The work done in a unit of time for these lengths; a length that was not seen counts as the
    /// mean.
    [[nodiscard]] double speed(const work_lengths& of) const noexcept {
      double work = 0;
      double took = 0;
      for (std::size_t i = 0; i < length_classes; ++i) {
        const part& p = parts[i].work_ns > 0 ? parts[i] : all;
        work += of.work_ns[i];
        took += of.work_ns[i] * p.took_ns / std::max(1.0, p.work_ns);
      }
      return took > 0 ? work / took : all.work_ns / all.took_ns;
    }
  };
  /// Of the time of such segments, the fraction submitted while a real-time job was expected.
  struct expected_part {
    double expected_ns = 0, all_ns = 0;
    std::uint32_t segments = 0;

    void learn(duration took, bool expected) noexcept {
      const auto ns = static_cast<double>(took.count());
      segments = std::min(segments + 1, most_segments);
      expected_ns += expected ? ns : 0;
      all_ns += ns;
      if (all_ns > 1e9) {
        expected_ns /= 2;
        all_ns /= 2;
      }
    }
    /// 1 while too little is known.
    [[nodiscard]] double part() const noexcept {
      return segments >= least_segments && all_ns > 0 ? expected_ns / all_ns : 1;
    }
  };
  struct size_facts {
    latest_line slower; ///< by the remaining time of the running work
    work_done done;
    double likely_share = 1;
    is rated = is::open;
    bool compared = false;
  };

  [[nodiscard]] bool is_measured(std::size_t i) const noexcept {
    return sizes_[i].done.segments >= least_segments;
  }
  /// The speed of work while no real-time job is expected, the reference of shares: measured, or
  /// else from the profile. If the work is much slower even with all SMs, other work shares the
  /// device with it by now, and the speed on all SMs is the best estimate.
  [[nodiscard]] double unhindered_speed() const noexcept {
    const double known = unhindered_.segments >= least_segments ? unhindered_.speed(lengths_) : 1;
    if (!is_measured(0)) return known;
    return speed(0) < shared_speed * known ? speed(0) : std::max(speed(0), known);
  }
  [[nodiscard]] double overall(std::size_t i) const noexcept { return found_part() * slow_down(i); }
  /// The slow-down of the slowest in a hundred; it does not count if fewer arrive beside such work.
  [[nodiscard]] double tail(std::size_t i) const noexcept {
    if (found_part() < tail_counts / 2) return 0;
    const latest_line& s = sizes_[i].slower;
    const double by_ahead = s.slope() * std::sqrt(ahead_.cause_variance());
    return slow_down(i) + 2 * std::hypot(by_ahead, s.off_line());
  }
  /// Standard error of the mean.
  [[nodiscard]] double mean_error(std::size_t i) const noexcept {
    const latest_line& s = sizes_[i].slower;
    return std::max(least_spread, s.off_line()) / std::sqrt(std::max(1.0, s.seen()));
  }

  /// The error of a share that was measured with so few segments.
  [[nodiscard]] double share_error(std::size_t i) const noexcept {
    return 0.06 / std::sqrt(std::max(1.0, static_cast<double>(sizes_[i].done.segments)));
  }

  /// `last`: the result is never open.
  [[nodiscard]] is judge(std::size_t i, bool last) const noexcept {
    const size_facts& f = sizes_[i];
    const bool measured = i == 0 || is_measured(i);
    const bool costs_known = measured && without_.seen() >= few_jobs;
    if ((costs_known || last) && i > 0 && share(i) < target_.share - share_error(i))
      return is::costly;
    const double n = f.slower.seen();
    if (n < few_jobs && !last) return is::open;
    const double error = n > 0 ? 2 * mean_error(i) : 0;
    const double mean = overall(i);
    const double slowest = tail(i);
    if (mean - found_part() * error > target_.slow_down || slowest - 2 * error > target_.tail)
      return is::beyond;
    if (!measured && !last) return is::open;
    if (n >= enough_jobs && mean + found_part() * error <= target_.slow_down &&
        slowest + 2 * error <= target_.tail)
      return is::within;
    if (n < most_jobs && !last) return is::open;
    return mean <= target_.slow_down && slowest <= target_.tail ? is::within : is::beyond;
  }

  void count(bool found) noexcept {
    ++jobs_;
    ++tried_;
    tried_found_ += found;
    (found ? found_ : none_) += 1;
    if (found_ + none_ > counted) {
      found_ /= 2;
      none_ /= 2;
    }
    if (found && current_ != stays_) ++trials_;
    step();
  }

  void step() noexcept {
    switch (stage_) {
    case stage::measuring:
      if (sizes_.size() == 1 || (sizes_[0].done.segments + unhindered_.segments < least_segments &&
                                 tried_ < std::uint64_t{2} * most_jobs))
        return;
      stage_ = stage::rating;
      return rate(start_);
    case stage::rating: {
      size_facts& f = sizes_[current_];
      const bool last = tried_ >= longest_trial || f.slower.seen() >= 2 * most_jobs;
      f.rated = judge(current_, last);
      if (f.rated == is::open) return;
      if (const auto next = next_to_rate()) return rate(*next);
      if (any_within()) return conclude();
      stage_ = stage::comparing;
      more_trials_ = 0;
      doubted_size_.reset();
      for (size_facts& s : sizes_)
        s.compared = s.rated != is::beyond || s.slower.seen() >= compared_jobs;
      return compare();
    }
    case stage::comparing: {
      const bool enough =
          tried_found_ >= compared_jobs || tried_ >= longest_trial || is_clearly_worse(current_);
      if (enough && doubted_size_ == current_ && sizes_[current_].slower.seen() < few_jobs)
        sizes_[current_].slower = doubted_;
      const is now = judge(current_, enough);
      if (!enough && now != is::costly) return;
      if (now != is::open) sizes_[current_].rated = now;
      sizes_[current_].compared = true;
      return compare();
    }
    case stage::concluded: return watch();
    }
  }

  void rate(std::size_t i) noexcept {
    sizes_[i].rated = is::open;
    if (i != current_) sizes_[i].slower = {};
    change(i);
  }

  /// The next size that can still be the choice. Leaving more SMs never slows real-time jobs down
  /// and never speeds best-effort work up.
  [[nodiscard]] std::optional<std::size_t> next_to_rate() const noexcept {
    const auto rated = [this](std::size_t i) { return sizes_[i].rated; };
    for (std::size_t w = 0; w < sizes_.size(); ++w) {
      if (rated(w) != is::within) continue;
      for (std::size_t i = w; i-- > 0;) { // smaller sizes, down to one that is beyond the target
        if (rated(i) == is::beyond) return std::nullopt;
        if (rated(i) == is::open) return i;
      }
      return std::nullopt;
    }
    std::size_t above = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      if (rated(i) == is::beyond) above = i;
    if (above == 0 && rated(0) == is::open) // start next to the size that costs too much
      for (std::size_t i = 1; i < sizes_.size(); ++i)
        if (rated(i) == is::costly) return i - 1;
    for (std::size_t i = above; i < sizes_.size() && rated(i) != is::costly; ++i)
      if (rated(i) == is::open) return i;
    for (std::size_t i = sizes_.size(); i-- > 0;) // for comparison
      if (rated(i) == is::open && !costlier_than_one(i)) return i;
    return std::nullopt;
  }
  [[nodiscard]] bool costlier_than_one(std::size_t i) const noexcept {
    for (std::size_t k = 0; k < i; ++k)
      if (sizes_[k].rated == is::costly) return true;
    return false;
  }

  [[nodiscard]] bool any_within() const noexcept {
    return std::any_of(sizes_.begin(), sizes_.end(),
                       [](const size_facts& f) { return f.rated == is::within; });
  }

  /// Tries the next size to compare with others, or ends. Starts with the sizes that are likely to
  /// be best; the others then need only short trials.
  void compare() noexcept {
    for (std::size_t i = sizes_.size(); i-- > 0;)
      if (!sizes_[i].compared) return change(i);
    if (const auto open = in_doubt(); open && more_trials_ < most_more_trials) {
      ++more_trials_;
      return change(*open);
    }
    conclude();
  }

  /// The slow-down beyond the target, as a multiple of the target, and its error.
  [[nodiscard]] double excess(std::size_t i) const noexcept {
    return std::max(overall(i) / unit(), tail(i) / std::max(target_.tail, 0.01));
  }
  [[nodiscard]] double excess_error(std::size_t i) const noexcept {
    return mean_error(i) * std::max(found_part() / unit(), 2 / std::max(target_.tail, 0.01));
  }
  /// Whether this trial shows that the size is clearly worse than the last choice; before the first
  /// choice, than any better known size.
  [[nodiscard]] bool is_clearly_worse(std::size_t i) const noexcept {
    const auto than = [&](std::size_t k) {
      return k != i && excess(i) - 2 * excess_error(i) > excess(k) + 2 * excess_error(k);
    };
    if (rechecks_) return sizes_[i].slower.seen() >= few_jobs && than(stays_);
    if (sizes_[i].slower.seen() < 2 * few_jobs) return false;
    for (std::size_t k = 0; k < sizes_.size(); ++k)
      if (sizes_[k].rated == is::beyond && sizes_[k].slower.seen() >= compared_jobs && than(k))
        return true;
    return false;
  }
  /// The size with the least slow-down among sizes beyond the target; 0 if there is none.
  [[nodiscard]] std::size_t least_beyond() const noexcept {
    std::size_t least = 0;
    for (std::size_t i = 1; i < sizes_.size(); ++i)
      if (sizes_[i].rated == is::beyond && excess(i) < excess(least)) least = i;
    return least;
  }
  /// Whether it is beyond the target and has more throughput.
  [[nodiscard]] bool gains(std::size_t i, std::size_t over) const noexcept {
    return sizes_[i].rated == is::beyond && share(i) > share(over) + alike_share;
  }
  /// The slow-down of a size over that of another, beyond the tolerance for equality, and its
  /// error. Multiples of the target.
  struct difference {
    double more = 0, off = 0;
  };
  [[nodiscard]] difference between(std::size_t i, std::size_t least) const noexcept {
    return {excess(i) - excess(least) - alike / unit(),
            std::hypot(excess_error(i), excess_error(least))};
  }
  /// A size whose further trial decides whether one with more throughput is equally good.
  [[nodiscard]] std::optional<std::size_t> in_doubt() const noexcept {
    if (any_within()) return std::nullopt;
    const std::size_t least = least_beyond();
    for (std::size_t i = least; i-- > 0;) {
      if (!gains(i, least)) continue;
      const auto [more, off] = between(i, least);
      const std::size_t fewer = sizes_[i].slower.seen() < sizes_[least].slower.seen() ? i : least;
      if (std::abs(more) <= off && sizes_[fewer].slower.seen() < most_compared_jobs) return fewer;
    }
    return std::nullopt;
  }
  [[nodiscard]] double unit() const noexcept { return std::max(target_.slow_down, 0.01); }

  [[nodiscard]] std::size_t best() const noexcept {
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      if (sizes_[i].rated == is::within) return i;
    const std::size_t least = least_beyond();
    std::size_t best = least;
    // smaller sizes with equal slow-down and more throughput
    for (std::size_t i = least; i-- > 0;) {
      if (!gains(i, best)) continue;
      const auto [more, off] = between(i, least);
      if (more <= off) best = i;
    }
    return best;
  }

  void conclude() noexcept {
    const std::size_t chosen = best();
    rest_ = chosen == stays_ && rechecks_ ? std::min(2 * rest_, longest_rest) : recheck_jobs;
    rechecks_ = true;
    stays_ = chosen;
    check_at_ = jobs_ + rest_;
    stage_ = stage::concluded;
    change(chosen);
  }

  void watch() noexcept {
    size_facts& f = sizes_[stays_];
    const double error = 2 * mean_error(stays_);
    const bool slow = f.slower.seen() >= enough_jobs && f.rated == is::within &&
                      (overall(stays_) - found_part() * error > clearly_more * target_.slow_down ||
                       tail(stays_) - 2 * error > clearly_more * target_.tail);
    const bool costs =
        stays_ > 0 && is_measured(stays_) && share(stays_) < target_.share - share_margin;
    if (slow || costs) return rate_anew(slow ? is::beyond : is::costly);
    if (f.rated == is::beyond && found_part() >= tail_counts && judge(stays_, false) == is::within)
      f.rated = is::within;
    if (jobs_ < check_at_) return;
    const auto other = to_recheck();
    if (!other) {
      check_at_ = jobs_ + rest_;
    } else if (f.rated == is::within) {
      stage_ = stage::rating;
      // if it is within the target, smaller ones may be as well
      for (std::size_t i = 0; i < *other; ++i) sizes_[i].rated = is::open;
      rate(*other);
    } else {
      stage_ = stage::comparing;
      more_trials_ = 0;
      for (size_facts& s : sizes_) s.compared = true;
      sizes_[*other].compared = false;
      // The old measurements of this size are in doubt; they remain valid if too few jobs occur in
      // the trial.
      doubted_ = std::exchange(sizes_[*other].slower, {});
      doubted_size_ = *other;
      sizes_[*other].done = {};
      compare();
    }
  }

  /// The choice is no longer valid, and the ratings of other sizes may be as old.
  void rate_anew(is why) noexcept {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      sizes_[i].rated = is::open;
      if (i != stays_) sizes_[i].done = {};
    }
    sizes_[stays_].rated = why;
    stage_ = stage::rating;
    rechecks_ = false;
    if (const auto next = next_to_rate()) return rate(*next);
    conclude();
  }

  [[nodiscard]] std::optional<std::size_t> to_recheck() noexcept {
    if (sizes_[stays_].rated == is::within)
      return stays_ > 0 ? std::optional(stays_ - 1) : std::nullopt;
    for (std::size_t i = 1; i < sizes_.size(); ++i) { // none was within the target: each in turn
      turn_ = (turn_ + 1) % sizes_.size();
      if (turn_ != stays_) return turn_;
    }
    return std::nullopt;
  }

  void change(std::size_t to) noexcept {
    current_ = to;
    tried_ = tried_found_ = 0;
  }

  reserve_target target_;
  inline_vector<size_facts, most_sizes + 1> sizes_;
  stage stage_ = stage::measuring;
  std::size_t start_ = 0;
  std::size_t current_ = 0;
  std::size_t stays_ = 0; ///< the last choice
  std::size_t turn_ = 0;
  std::uint32_t more_trials_ = 0;           ///< trials of sizes in doubt, in this comparison
  bool rechecks_ = false;                   ///< the choice was made before
  work_lengths lengths_;                    ///< of all segments
  work_done unhindered_;                    ///< while no real-time job was expected
  latest_mean without_, alone_;             ///< of cycle()
  expected_part expected_;                  ///< fraction of the work that leaves SMs
  std::optional<std::size_t> doubted_size_; ///< the size that is tried again
  latest_line doubted_;                     ///< measurements of that size before this trial
  latest_line ahead_; ///< of the work that runs at arrivals, for any size: the causes alone
  double found_ = 0, none_ = 0;
  std::uint64_t jobs_ = 0;
  std::uint64_t tried_ = 0;       ///< jobs since the current size is tried
  std::uint64_t tried_found_ = 0; ///< of these, jobs that arrived beside such work
  std::uint64_t trials_ = 0;
  std::uint64_t check_at_ = 0;
  std::uint64_t rest_ = recheck_jobs; ///< jobs from one recheck to the next
};

} // namespace gsched
