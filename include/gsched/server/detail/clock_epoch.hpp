// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/server/detail/futex.hpp>

#include <cstdint>

namespace gsched::detail {

/// The time zero of a clock on CLOCK_MONOTONIC, as near as two readings of the latter can say. The
/// clock runs with it: of a device, or of a batch_runner.
template <class Clock>
[[nodiscard]] std::int64_t epoch_of(const Clock& c) noexcept {
  std::int64_t best = 0;
  std::int64_t narrowest = never_ns;
  for (int i = 0; i < 16; ++i) {
    const std::int64_t before = now_ns();
    const std::int64_t then = c.now().time_since_epoch().count();
    const std::int64_t width = now_ns() - before;
    if (width >= narrowest) continue;
    narrowest = width;
    best = before + width / 2 - then;
  }
  return best;
}

} // namespace gsched::detail
