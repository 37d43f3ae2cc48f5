// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/sim/sm_map.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gsched::sim {

/// One split of a device's SMs into groups, and who has which: green contexts.
///
/// Order    a partition is neighbouring groups, as low as they come; one whose size needs the last,
///          odd group ends with it.
/// Errors   too_small where so many SMs are not left side by side.
class partitions {
public:
  partitions(sm_count sms, sm_count unit)
      : sms_(sms.count()), unit_(unit.count()),
        taken_(sms_ < unit_ ? std::size_t{1} : sms_ / unit_) {}

  /// At least `wanted` SMs of its own: as few more as the groups allow.
  [[nodiscard]] sm_range take(sm_count wanted) {
    const auto groups = static_cast<std::uint32_t>(taken_.size());
    sm_range best{};
    for (std::uint32_t first = 0; first < groups; ++first) {
      for (std::uint32_t last = first + 1; last <= groups && !taken_[last - 1]; ++last) {
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
    for (std::uint32_t g = best.first / unit_; g < groups && g * unit_ < best.last; ++g)
      taken_[g] = true;
    return best;
  }

private:
  /// The last group has what does not make a whole one more.
  [[nodiscard]] std::uint32_t end_of(std::uint32_t groups) const noexcept {
    return groups == taken_.size() ? sms_ : groups * unit_;
  }

  std::uint32_t sms_;
  std::uint32_t unit_;
  std::vector<bool> taken_;
};

} // namespace gsched::sim
