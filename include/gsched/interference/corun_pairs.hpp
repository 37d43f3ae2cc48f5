// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace gsched {

/// One of two graphs that were replayed at the same time.
struct corun_side {
  std::string model{};
  std::uint32_t batch = 1;
  sm_count sms{};   ///< that it may use
  duration solo{};  ///< a replay alone on these
  duration corun{}; ///< the median of its replays while the other runs

  /// What is measured, and predicted: how many times as long it takes beside the other.
  [[nodiscard]] double slowdown() const noexcept {
    return static_cast<double>(corun.count()) / static_cast<double>(solo.count());
  }
};

struct corun_pair {
  std::array<corun_side, 2> side{};

  /// Both may use all SMs, if the device has so many.
  [[nodiscard]] bool shares(sm_count device) const noexcept {
    return side[0].sms == device && side[1].sms == device;
  }
};

} // namespace gsched
