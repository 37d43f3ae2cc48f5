// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace gsched {

/// One of two graphs that were replayed at the same time.
struct corun_side {
  std::string model{};
  std::uint32_t batch = 1;
  sm_count sms{};   ///< SMs that it may use
  duration solo{};  ///< latency of a replay alone on these SMs
  duration corun{}; ///< median latency of its replays beside the other graph

  /// The measured slow-down: latency beside the other graph over latency alone.
  [[nodiscard]] double slowdown() const noexcept {
    return static_cast<double>(corun.count()) / static_cast<double>(solo.count());
  }
};

/// A measurement of two graphs side by side.
struct corun_pair {
  std::array<corun_side, 2> side{};

  /// Whether both graphs may use all SMs of a device with that many.
  [[nodiscard]] bool shares(sm_count device) const noexcept {
    return side[0].sms == device && side[1].sms == device;
  }
};

/// A measurement of two or more graphs side by side.
struct corun_group {
  std::string name{};
  std::vector<corun_side> sides{};
};

} // namespace gsched
