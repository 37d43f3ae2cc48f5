// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/settings.hpp"

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gsched_server {

/// A share of every device, and limits over all of them. Requests of one that has lost its place
/// end as they would.
struct tenant {
  using clock = std::chrono::steady_clock;

  tenant(std::string called, std::vector<gsched::client_id> of_devices, double burst)
      : name(std::move(called)), clients(std::move(of_devices)), tokens(burst),
        filled(clock::now()) {}

  const std::string name;
  const std::vector<gsched::client_id> clients; ///< by device; of its weight
  std::atomic<std::uint32_t> active{0};         ///< requests that have not ended

  std::mutex mutex; ///< of the rest
  tenant_limits limits;
  double tokens; ///< requests that the rate allows now
  clock::time_point filled;

  /// The time until the rate allows a request; zero, and takes it, if that is now.
  [[nodiscard]] gsched::duration take_token();
};

} // namespace gsched_server
