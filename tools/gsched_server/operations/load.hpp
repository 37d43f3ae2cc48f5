// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <chrono>
#include <cstdint>

namespace gsched_server {

/// How much a service has to do, for those that choose among several.
struct load_figures {
  bool ready = true;         ///< it takes requests, and will for a while
  bool failed = false;       ///< no device works
  std::uint64_t active = 0;  ///< requests in service or waiting, of the network and of the channel
  std::uint64_t most = 1;    ///< limits/requests
  gsched::duration queued{}; ///< device time that was not submitted, of the mean device

  /// Queued work of so much device time counts as a full server.
  static constexpr gsched::duration full_queue = std::chrono::seconds{1};

  /// From 0, idle, to 1: the larger one of requests by their limit and queued time by full_queue.
  [[nodiscard]] double fill() const noexcept {
    const double by_count = static_cast<double>(active) / static_cast<double>(most);
    const double by_time = gsched::to_s(queued) / gsched::to_s(full_queue);
    const double larger = by_count > by_time ? by_count : by_time;
    return larger < 0 ? 0 : larger > 1 ? 1 : larger;
  }
};

} // namespace gsched_server
