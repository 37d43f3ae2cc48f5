// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/sim/detail/blocks/sm_map.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gsched::sim {

/// One split of a device's SMs into groups, and the groups of each partition, like green contexts.
///
/// Order    a partition consists of the lowest possible neighbouring groups; one whose size needs
///          the last, odd group ends with it.
/// Errors   too_small: so many neighbouring SMs are not free.
class sm_partitions {
public:
  sm_partitions(sm_count sms, sm_count unit)
      : sms_(sms.count()), unit_(unit.count()),
        use_(sms_ < unit_ ? std::size_t{1} : sms_ / unit_, use::free) {}

  /// At least `wanted` SMs that no other partition has, rounded up to groups.
  [[nodiscard]] sm_range take(sm_count wanted) {
    const auto groups = static_cast<std::uint32_t>(use_.size());
    sm_range best{};
    for (std::uint32_t first = 0; first < groups; ++first) {
      for (std::uint32_t last = first + 1; last <= groups && use_[last - 1] == use::free; ++last) {
        const sm_range r{first * unit_, end_of(last)};
        if (r.size() < wanted.count()) continue;
        if (best.size() == 0 || r.size() < best.size()) best = r;
        break;
      }
    }
    if (best.size() == 0)
      throw error(errc::too_small, "partition of " + std::to_string(wanted.count()) +
                                       " SMs, expected at most what is left of " +
                                       std::to_string(sms_) + " in groups of " +
                                       std::to_string(unit_));
    mark(best, use::alone);
    return best;
  }

  /// All SMs except the first `left`, rounded up to groups, and except those of take(). Partitions
  /// made in this way overlap.
  [[nodiscard]] sm_range all_but(sm_count left) {
    const auto groups = static_cast<std::uint32_t>(use_.size());
    std::uint32_t first = 0;
    while (first < groups && end_of(first) < left.count()) ++first;
    while (first < groups && use_[first] == use::alone) ++first;
    std::uint32_t last = first; // take() uses groups at either end, so the rest is contiguous
    while (last < groups && use_[last] != use::alone) ++last;
    if (first == last)
      throw error(errc::too_small, "partition that leaves " + std::to_string(left.count()) +
                                       " SMs, expected some of " + std::to_string(sms_) +
                                       " in groups of " + std::to_string(unit_) +
                                       " to remain for it");
    const sm_range r{first * unit_, end_of(last)};
    mark(r, use::shared);
    return r;
  }

private:
  enum class use : unsigned char { free, alone, shared };

  void mark(const sm_range& r, use as) noexcept {
    for (std::size_t g = r.first / unit_; g < use_.size() && g * unit_ < r.last; ++g) use_[g] = as;
  }
  /// The last group has the SMs that do not fill another one.
  [[nodiscard]] std::uint32_t end_of(std::uint32_t groups) const noexcept {
    return groups == use_.size() ? sms_ : groups * unit_;
  }

  std::uint32_t sms_;
  std::uint32_t unit_;
  std::vector<use> use_;
};

} // namespace gsched::sim
