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

/// What keeping SMs free of long best-effort kernels has to reach. The first two are parts of the
/// time that real-time jobs take alone; the third is a part of what is left: of the best-effort
/// throughput in the time that real-time jobs leave when they run alone. 0 is none, 1 all.
struct reserve_target {
  double slow_down = 0.10; ///< of real-time jobs in the mean, at most
  double tail = 0.50;      ///< of the slowest in a hundred, at most
  double share = 0.80;     ///< of what is left, at least; an estimate, which may be off by 0.05
};

/// Learns how many SMs the long kernels of one best-effort model leave to real-time work.
///
/// The choice is the size with the most best-effort throughput among those under which real-time
/// jobs are slowed down within the target. If no size within `share` reaches the target, it is the
/// one of least slow-down among those within `share`; of sizes that do not differ measurably, the
/// one with the most throughput.
///
/// One size is tried at a time: first the largest one that is likely to be within `share`, then
/// smaller ones while they reach the target, or larger ones until one does. A size is rated once
/// its slow-down is clearly on one side of the target, or after most_jobs. If none reaches the
/// target, each one within `share` is tried for compared_jobs, or until it is clearly worse than
/// another. Where it is open then whether a size with more throughput is worse than the one of
/// least slow-down, both are tried on, in turn, until it is clear, or for most_compared_jobs each.
///
/// The slow-down that counts is the mean over all real-time jobs, whether they found long work
/// running or not; the tail is that of the jobs that did, their mean and two standard deviations.
/// It does not count where fewer than one in a hundred found such work. How much work a job finds
/// left varies from job to job, and not with the size. So slow-downs are compared at the mean of
/// what is left (latest_line), and few jobs are enough.
///
/// After that the choice is watched. When it is beyond 1.25 times the target, or clearly below
/// `share`, the sizes are rated anew, and the measured speeds of the others are dropped.
/// After recheck_jobs the next smaller size is tried again, or where none reached the target the
/// others in turn, each until it is clearly worse; each recheck that changes nothing doubles the
/// time to the next one.
///
/// Differs  from gpu-lets (Choi et al., USENIX ATC 2022), which sizes partitions ahead of time from
///          profiles and request rates: here only best-effort kernels have a partition, real-time
///          work has every SM, and the size follows what is measured in service.
/// Units    slow-downs and shares as in reserve_target. Index 0 is no SM, i + 1 is sizes[i].
/// Order    of a stationary mix in which every job finds such work, the choice is made within
///          most_jobs for each size and for none, and where none reaches the target compared_jobs
///          more for each and most_compared_jobs for each of two, after least_segments with no SM
///          left. No trial lasts longer than longest_trial real-time jobs that were measured.
/// Cost     O(sizes), at most five; no allocation.
/// Threads  one owner; no locking. Depends on the calls alone.
class reserve_choice {
public:
  static constexpr std::size_t most_sizes = 4;
  static constexpr std::uint32_t few_jobs = 6;             ///< for a clear answer
  static constexpr std::uint32_t enough_jobs = 10;         ///< to accept a size
  static constexpr std::uint32_t most_jobs = 32;           ///< that found such work, to rate a size
  static constexpr std::uint32_t compared_jobs = 64;       ///< that found it, to compare sizes
  static constexpr std::uint32_t most_compared_jobs = 256; ///< the same, of two that are close
  static constexpr std::uint32_t longest_trial = 256;      ///< measured real-time jobs of any kind
  static constexpr std::uint32_t least_segments = 8;       ///< to know a speed
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
  /// No size is being tried.
  [[nodiscard]] bool settled() const noexcept { return stage_ == stage::settled; }

  /// A real-time job has ended that found work of size `which` running, with so much left of it, as
  /// time on the whole device. The job took longer than alone by that part.
  void found(std::size_t which, duration left, double slow_down) noexcept {
    const auto ns = static_cast<double>(left.count());
    sizes_[which].slower.learn(ns, slow_down, remembered);
    ahead_.learn(ns, 0, remembered);
    count(true);
  }
  /// A real-time job has ended that found no such work.
  void found_none() noexcept { count(false); }
  /// A real-time job has ended that also found work of another model, which leaves fewer SMs: so it
  /// does not show what this work does.
  void found_other() noexcept {
    ++jobs_;
    ++tried_;
    step();
  }

  /// A segment under size `which` has ended, of so much time on the whole device, that took so long
  /// with no real-time job beside it; unset if one was beside it. `expected`: one was expected when
  /// the segment was submitted. Where none is, long segments are queued behind one another and
  /// leave no SM.
  void did(std::size_t which, duration work, std::optional<duration> took, bool expected) noexcept {
    lengths_.learn(work);
    if (!took) return;
    if (expected)
      sizes_[which].done.learn(work, *took);
    else if (which == 0)
      unhindered_.learn(work, *took);
    expected_.learn(*took, expected);
    if (stage_ != stage::settled) step();
  }

  /// With each real-time job: the time before it in which no real-time job was there, since the
  /// last one, and what it takes alone.
  void cycle(duration without, duration alone) noexcept {
    without_.learn(static_cast<double>(without.count()), remembered);
    alone_.learn(static_cast<double>(alone.count()), remembered);
  }

  /// The mix of models has changed, so what was learned may not hold. The last choice is tried
  /// first.
  void forget() noexcept {
    if (stage_ == stage::settled) start_ = stays_;
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

  /// How much longer jobs take that find work of size `which` running, in the mean.
  [[nodiscard]] double slow_down(std::size_t which) const noexcept {
    return sizes_[which].slower.mean_at(ahead_.mean_cause());
  }
  /// Work done in a unit of time under `which`, as time on the whole device: as measured, or else
  /// as is likely.
  [[nodiscard]] double speed(std::size_t which) const noexcept {
    const work_done& d = sizes_[which].done;
    return d.segments > 0 ? d.speed(lengths_) : sizes_[which].likely_share;
  }
  /// Best-effort throughput under `which` of what is left, as measured or else as it is likely to
  /// be: work at that speed in the time without real-time jobs, as far as one is expected then, and
  /// what they find running, which is done beside them; in that time and theirs. Above 1 where that
  /// is more than real-time jobs cost by taking longer.
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
  /// Part of the real-time jobs that find such work running.
  [[nodiscard]] double found_part() const noexcept {
    return jobs_ < few_jobs ? 1 : found_ / (found_ + none_);
  }
  /// Real-time jobs that found work running while another size than the choice was tried.
  [[nodiscard]] std::uint64_t trials() const noexcept { return trials_; }

private:
  enum class stage : std::uint8_t {
    measuring, ///< the speed of best-effort work on all SMs
    rating,
    comparing, ///< sizes that are beyond the target
    settled
  };
  enum class is : std::uint8_t { open, within, beyond, costly };
  static constexpr std::uint32_t most_segments = 1024;     ///< that count
  static constexpr double remembered = most_compared_jobs; ///< jobs, for each size
  static constexpr double counted = 256;                   ///< jobs, for found_part
  static constexpr double alike = 0.02;                    ///< slow-downs that differ by less ...
  static constexpr double alike_share = 0.01;              ///< ... and shares
  static constexpr double least_spread = 0.02;             ///< of slow-downs, off the line
  /// Trials of two sizes that are close, of one comparison, also where few jobs meet them.
  static constexpr std::uint32_t most_more_trials = 2 * most_compared_jobs / compared_jobs;
  static constexpr double clearly_more = 1.25; ///< of the target, to give up a choice
  static constexpr double share_margin = 0.03; ///< the same
  /// Part of the jobs that find such work. Below half of it the tail does not count, as the slowest
  /// in a hundred jobs are others; and only above it a choice is seen to be within the target
  /// again.
  static constexpr double tail_counts = 0.02;
  /// Of the unhindered speed: with less, other work runs beside.
  static constexpr double shared_speed = 0.85;

  /// Segments by length: below 128 us of work on the whole device, 256 us, and so on.
  static constexpr std::size_t length_classes = 6;
  [[nodiscard]] static std::size_t length_class(duration work) noexcept {
    constexpr std::uint64_t least_ns = std::uint64_t{1} << 17;
    const auto ns = static_cast<std::uint64_t>(std::max(duration::zero(), work).count());
    return std::min<std::size_t>(std::bit_width(ns / least_ns), length_classes - 1);
  }
  /// The work in segments of each length, whether a real-time job was beside them or not.
  struct work_lengths {
    std::array<double, length_classes> work_ns{};
    double all_ns = 0;

    void learn(duration work) noexcept {
      const auto ns = static_cast<double>(work.count());
      work_ns[length_class(work)] += ns;
      all_ns += ns;
      if (all_ns <= 1e9) return; // the past counts less and less
      all_ns /= 2;
      for (double& each : work_ns) each /= 2;
    }
  };
  /// Segments with no real-time job beside them. Long ones seldom have none, and lose more where
  /// SMs are left than short ones; so speeds are weighted by the lengths of all.
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
      if (all.took_ns <= 1e9) return; // the past counts less and less
      all = {all.work_ns / 2, all.took_ns / 2};
      for (part& p : parts) p = {p.work_ns / 2, p.took_ns / 2};
    }
    /// Work of these lengths in a unit of time; a length that was not seen counts as the mean.
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
  /// Of the time of such segments, the part of those that were submitted while a job was expected.
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
    latest_line slower; ///< by what was ahead
    work_done done;
    double likely_share = 1;
    is rated = is::open;
    bool compared = false;
  };

  [[nodiscard]] bool is_measured(std::size_t i) const noexcept {
    return sizes_[i].done.segments >= least_segments;
  }
  /// Of work while no real-time job is expected, with which shares are compared: as measured, or
  /// else as the profile says. But if the work is much slower than that even with all SMs, other
  /// work shares the device with it by now, and the speed on all SMs is the best that is known.
  [[nodiscard]] double unhindered_speed() const noexcept {
    const double known = unhindered_.segments >= least_segments ? unhindered_.speed(lengths_) : 1;
    if (!is_measured(0)) return known;
    return speed(0) < shared_speed * known ? speed(0) : std::max(speed(0), known);
  }
  [[nodiscard]] double overall(std::size_t i) const noexcept { return found_part() * slow_down(i); }
  /// Of the slowest in a hundred; none counts where fewer find such work.
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

  /// How far a share may be off that was measured with so few segments.
  [[nodiscard]] double share_error(std::size_t i) const noexcept {
    return 0.06 / std::sqrt(std::max(1.0, static_cast<double>(sizes_[i].done.segments)));
  }

  /// `last`: never open.
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
      if (any_within()) return settle();
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
    case stage::settled: return watch();
    }
  }

  void rate(std::size_t i) noexcept {
    sizes_[i].rated = is::open;
    if (i != current_) sizes_[i].slower = {};
    change(i);
  }

  /// A size that can still be the choice. More SMs left never slow real-time jobs down, and never
  /// speed best-effort work up.
  [[nodiscard]] std::optional<std::size_t> next_to_rate() const noexcept {
    const auto rated = [this](std::size_t i) { return sizes_[i].rated; };
    for (std::size_t w = 0; w < sizes_.size(); ++w) {
      if (rated(w) != is::within) continue;
      for (std::size_t i = w; i-- > 0;) { // smaller ones, down to one that is beyond
        if (rated(i) == is::beyond) return std::nullopt;
        if (rated(i) == is::open) return i;
      }
      return std::nullopt;
    }
    std::size_t above = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      if (rated(i) == is::beyond) above = i;
    if (above == 0 && rated(0) == is::open) // begin next to the one that was found too costly
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

  /// Tries the next size that is to be compared with others; or ends. First those that are likely
  /// to be the best, as others need not be tried for long then.
  void compare() noexcept {
    for (std::size_t i = sizes_.size(); i-- > 0;)
      if (!sizes_[i].compared) return change(i);
    if (const auto open = in_doubt(); open && more_trials_ < most_more_trials) {
      ++more_trials_;
      return change(*open);
    }
    settle();
  }

  /// How far beyond the target, as a multiple of it; and how far that may be off.
  [[nodiscard]] double excess(std::size_t i) const noexcept {
    return std::max(overall(i) / unit(), tail(i) / std::max(target_.tail, 0.01));
  }
  [[nodiscard]] double excess_error(std::size_t i) const noexcept {
    return mean_error(i) * std::max(found_part() / unit(), 2 / std::max(target_.tail, 0.01));
  }
  /// Than the last choice, as this trial shows; before there is one, than any that is known better.
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
  /// Of sizes that are beyond the target; 0 where none is.
  [[nodiscard]] std::size_t least_beyond() const noexcept {
    std::size_t least = 0;
    for (std::size_t i = 1; i < sizes_.size(); ++i)
      if (sizes_[i].rated == is::beyond && excess(i) < excess(least)) least = i;
    return least;
  }
  /// It is beyond the target and has more throughput.
  [[nodiscard]] bool gains(std::size_t i, std::size_t over) const noexcept {
    return sizes_[i].rated == is::beyond && share(i) > share(over) + alike_share;
  }
  /// How much more it slows real-time jobs down than another, beyond what counts as alike; and how
  /// far that may be off. As multiples of the target.
  struct difference {
    double more = 0, off = 0;
  };
  [[nodiscard]] difference between(std::size_t i, std::size_t least) const noexcept {
    return {excess(i) - excess(least) - alike / unit(),
            std::hypot(excess_error(i), excess_error(least))};
  }
  /// A size to be tried on, as it decides whether one with more throughput is as good.
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
    for (std::size_t i = least; i-- > 0;) { // smaller sizes that are alike, with more throughput
      if (!gains(i, best)) continue;
      const auto [more, off] = between(i, least);
      if (more <= off) best = i;
    }
    return best;
  }

  void settle() noexcept {
    const std::size_t chosen = best();
    rest_ = chosen == stays_ && rechecks_ ? std::min(2 * rest_, longest_rest) : recheck_jobs;
    rechecks_ = true;
    stays_ = chosen;
    check_at_ = jobs_ + rest_;
    stage_ = stage::settled;
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
      for (std::size_t i = 0; i < *other; ++i) // if it is within, those below it may be as well
        sizes_[i].rated = is::open;
      rate(*other);
    } else {
      stage_ = stage::comparing;
      more_trials_ = 0;
      for (size_facts& s : sizes_) s.compared = true;
      sizes_[*other].compared = false;
      // What was seen long ago is what is in doubt; but it holds where too few jobs meet the trial.
      doubted_ = std::exchange(sizes_[*other].slower, {});
      doubted_size_ = *other;
      sizes_[*other].done = {};
      compare();
    }
  }

  /// The choice does not hold any more, and ratings of other sizes may be as old.
  void rate_anew(is why) noexcept {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      sizes_[i].rated = is::open;
      if (i != stays_) sizes_[i].done = {};
    }
    sizes_[stays_].rated = why;
    stage_ = stage::rating;
    rechecks_ = false;
    if (const auto next = next_to_rate()) return rate(*next);
    settle();
  }

  [[nodiscard]] std::optional<std::size_t> to_recheck() noexcept {
    if (sizes_[stays_].rated == is::within)
      return stays_ > 0 ? std::optional(stays_ - 1) : std::nullopt;
    for (std::size_t i = 1; i < sizes_.size(); ++i) { // none was within: each in turn
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
  std::uint32_t more_trials_ = 0;           ///< of this comparison, of sizes in doubt
  bool rechecks_ = false;                   ///< the choice stood before
  work_lengths lengths_;                    ///< of all segments
  work_done unhindered_;                    ///< while no real-time job was expected
  latest_mean without_, alone_;             ///< of cycle()
  expected_part expected_;                  ///< part of the work that leaves SMs
  std::optional<std::size_t> doubted_size_; ///< that is tried again
  latest_line doubted_;                     ///< of the size that is tried again, as it was before
  latest_line ahead_; ///< of what jobs find running, under any size: the causes alone
  double found_ = 0, none_ = 0;
  std::uint64_t jobs_ = 0;
  std::uint64_t tried_ = 0;       ///< of these, since the current size is tried ...
  std::uint64_t tried_found_ = 0; ///< ... and found such work
  std::uint64_t trials_ = 0;
  std::uint64_t check_at_ = 0;
  std::uint64_t rest_ = recheck_jobs; ///< jobs from one recheck to the next
};

} // namespace gsched
