// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gsched::trace {

/// Counts durations in buckets whose width grows with the value: each octave has 64 equal buckets.
/// Below 128 ns every value has a bucket of its own.
///
/// Source   HdrHistogram, G. Tene, 2012 (hdrhistogram.org); nearest-rank percentiles.
/// Differs  there is no range to configure: every duration from zero up is recorded. A percentile
///          is the middle of its bucket.
/// Units    nanoseconds. A percentile is within 1/128 (0.8%) of the exact one; minimum, maximum,
///          mean and count are exact.
/// Errors   a negative duration is a bug (asserted), counted as zero.
/// Cost     record O(1); percentile, merge and clear O(buckets). 29 KiB; nothing allocates.
/// Threads  one owner; no locking.
class histogram {
public:
  void record(duration d) noexcept {
    assert(d >= duration::zero());
    const auto v = static_cast<std::uint64_t>(std::max(d, duration::zero()).count());
    ++counts_[bucket(v)];
    least_ = std::min(least_, v);
    greatest_ = std::max(greatest_, v);
    ++count_;
    add_sum(v >> 32, v & 0xffffffff);
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

  /// Minimum, maximum, mean and percentiles are zero if nothing was recorded.
  [[nodiscard]] duration min() const noexcept { return of(empty() ? 0 : least_); }
  [[nodiscard]] duration max() const noexcept { return of(greatest_); }

  /// To the nearest nanosecond.
  [[nodiscard]] duration mean() const noexcept {
    if (empty()) return duration::zero();
    // sum = high * 2^32 + low, divided in two steps so that nothing overflows.
    const std::uint64_t rest = sum_high_ % count_;
    const double part = (static_cast<double>(rest) * 0x1p32 + static_cast<double>(sum_low_)) /
                        static_cast<double>(count_);
    return of(((sum_high_ / count_) << 32) + static_cast<std::uint64_t>(std::llround(part)));
  }

  /// The smallest recorded value that at least `fraction` of all values do not exceed, in [0, 1].
  [[nodiscard]] duration percentile(double fraction) const noexcept {
    assert(fraction >= 0.0 && fraction <= 1.0);
    if (empty()) return duration::zero();
    const auto rank = std::clamp<std::uint64_t>(
        static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(count_))), 1, count_);
    if (rank == count_) return of(greatest_);
    std::uint64_t seen = 0;
    for (std::size_t b = 0; b < counts_.size(); ++b) {
      seen += counts_[b];
      if (seen >= rank) return of(std::clamp(middle(b), least_, greatest_));
    }
    return of(greatest_);
  }

  void merge(const histogram& other) noexcept {
    for (std::size_t b = 0; b < counts_.size(); ++b) counts_[b] += other.counts_[b];
    least_ = std::min(least_, other.least_);
    greatest_ = std::max(greatest_, other.greatest_);
    count_ += other.count_;
    add_sum(other.sum_high_, other.sum_low_);
  }

  void clear() noexcept { *this = histogram{}; }

private:
  static constexpr unsigned part_bits = 6;
  static constexpr std::uint64_t parts = std::uint64_t{1} << part_bits;
  static constexpr std::size_t buckets = (63 - part_bits + 1) * parts;

  /// Values below 2 * parts have a bucket each; above, the top part_bits + 1 bits select it.
  [[nodiscard]] static constexpr std::size_t bucket(std::uint64_t v) noexcept {
    if (v < 2 * parts) return v;
    const auto shift = static_cast<unsigned>(std::bit_width(v)) - (part_bits + 1);
    return shift * parts + (v >> shift);
  }
  [[nodiscard]] static constexpr std::uint64_t middle(std::size_t b) noexcept {
    if (b < 2 * parts) return b;
    const std::size_t shift = b / parts - 1;
    return ((parts + b % parts) << shift) + (std::uint64_t{1} << shift) / 2;
  }

  [[nodiscard]] static duration of(std::uint64_t v) noexcept {
    return duration{static_cast<duration::rep>(v)};
  }

  void add_sum(std::uint64_t high, std::uint64_t low) noexcept {
    sum_low_ += low;
    sum_high_ += high + (sum_low_ >> 32);
    sum_low_ &= 0xffffffff;
  }

  std::array<std::uint64_t, buckets> counts_{};
  std::uint64_t least_ = ~std::uint64_t{0};
  std::uint64_t greatest_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t sum_high_ = 0; ///< in units of 2^32 ns, which hold 96 bits of a sum
  std::uint64_t sum_low_ = 0;
};

} // namespace gsched::trace
