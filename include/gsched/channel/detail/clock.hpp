// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace gsched::channel::detail {

/// CLOCK_MONOTONIC, as the times of a request_record.
[[nodiscard]] inline std::int64_t monotonic_ns() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace gsched::channel::detail
