// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gsched_server {

/// The times of the last ten seconds, in buckets: eight for each octave of microseconds.
///
/// Units    a percentile is the middle of its bucket, within 6% of the exact one; times above a
///          minute count as that.
/// Cost     record O(1), and 900 bytes are cleared once a second; percentile O(buckets). 9 KiB.
/// Threads  one at a time.
class recent_times {
public:
  static constexpr std::int64_t seconds = 10;

  /// `now_s` never falls.
  void record(gsched::duration t, std::int64_t now_s) noexcept {
    slot& at = slots_[static_cast<std::size_t>(now_s % seconds)];
    if (at.second != now_s) at = {now_s, {}};
    ++at.counts[bucket(t)];
  }

  struct summary {
    std::uint64_t count = 0;
    gsched::duration p50{}, p99{}; ///< zero without any
  };
  [[nodiscard]] summary at(std::int64_t now_s) const noexcept {
    std::array<std::uint64_t, buckets> sum{};
    summary out;
    for (const slot& s : slots_) {
      if (s.second <= now_s - seconds || s.second > now_s) continue;
      for (std::size_t i = 0; i < buckets; ++i) sum[i] += s.counts[i];
    }
    for (const std::uint64_t n : sum) out.count += n;
    out.p50 = percentile(sum, out.count, 0.5);
    out.p99 = percentile(sum, out.count, 0.99);
    return out;
  }

private:
  static constexpr unsigned part_bits = 3;
  static constexpr std::uint64_t parts = std::uint64_t{1} << part_bits;
  static constexpr std::uint64_t most_us = std::uint64_t{1} << 26;
  static constexpr std::size_t buckets = (26 - part_bits + 1) * parts;

  [[nodiscard]] static std::size_t bucket(gsched::duration t) noexcept {
    const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(t.count() / 1000, 0));
    const std::uint64_t v = std::min(us, most_us - 1);
    if (v < 2 * parts) return v;
    const auto shift = static_cast<unsigned>(std::bit_width(v)) - (part_bits + 1);
    return shift * parts + (v >> shift);
  }
  [[nodiscard]] static gsched::duration percentile(const std::array<std::uint64_t, buckets>& sum,
                                                   std::uint64_t count, double fraction) noexcept {
    if (count == 0) return {};
    const auto rank = static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(count)));
    std::uint64_t seen = 0;
    std::size_t b = 0;
    while (b + 1 < buckets && (seen += sum[b]) < rank) ++b;
    const std::size_t shift = b < 2 * parts ? 0 : b / parts - 1;
    const std::uint64_t low = b < 2 * parts ? b : (parts + b % parts) << shift;
    return gsched::from_us(static_cast<double>(low) +
                           0.5 * static_cast<double>(std::uint64_t{1} << shift));
  }

  struct slot {
    std::int64_t second = -1;
    std::array<std::uint32_t, buckets> counts{};
  };
  std::array<slot, seconds> slots_{};
};

} // namespace gsched_server
