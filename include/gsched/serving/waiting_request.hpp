// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <cstdint>

namespace gsched {

/// A request that waits for a batch or runs in one.
struct waiting_request {
  std::uint64_t id = 0; ///< chosen by the caller
  time_point deadline{};
  bool operator==(const waiting_request&) const noexcept = default;
};

} // namespace gsched
