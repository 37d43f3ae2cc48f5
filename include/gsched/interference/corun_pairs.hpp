// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// One of two graphs that were replayed at the same time.
struct corun_side {
  std::string model{};
  std::uint32_t batch = 1;
  sm_count sms{};   ///< SMs that it may use
  duration solo{};  ///< latency of a replay alone on these SMs
  duration corun{}; ///< median latency of its replays beside the other graph

  /// As profile::full_name.
  [[nodiscard]] std::string full_name() const { return model + "_b" + std::to_string(batch); }
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

/// Slow-downs by names of graphs: the slowed one, then its neighbour.
using named_slowdowns = std::map<std::pair<std::string, std::string>, double>;

/// The slow-downs of pairs that share all SMs of a device. A graph is named MODEL_bBATCH, as its
/// profile is. Of a pair that was measured several times the largest counts; beside itself a graph
/// has the larger slow-down of its two instances.
///
/// Cost     O(pairs x log pairs).
[[nodiscard]] inline named_slowdowns slowdowns_by_name(std::span<const corun_pair> pairs,
                                                       sm_count device) {
  named_slowdowns all;
  for (const corun_pair& p : pairs) {
    if (!p.shares(device)) continue;
    for (const std::size_t i : {0u, 1u}) {
      double& most = all[{p.side[i].full_name(), p.side[1 - i].full_name()}];
      most = std::max(most, p.side[i].slowdown());
    }
  }
  return all;
}

/// A measurement of two or more graphs side by side.
struct corun_group {
  std::string name{};
  std::vector<corun_side> sides{};
};

} // namespace gsched
