// SPDX-License-Identifier: Apache-2.0
#pragma once

// In place of the library's: time stands still, or goes on once, when the explorer chooses.

#include "interleavings/explorer.hpp"

#include <cstdint>

namespace gsched::channel::detail {

struct model_clock {
  bool ticks = false;
  std::uint32_t early = 0; ///< looks before it was late
  bool late = false;

  [[nodiscard]] static model_clock& it() {
    static model_clock c;
    return c;
  }
};

/// Early, and from some look of the first thread on late: after all that anything waits for.
[[nodiscard]] inline std::int64_t monotonic_ns() noexcept {
  constexpr std::int64_t start = 1, end = std::int64_t{1} << 40;
  model_clock& c = model_clock::it();
  interleavings::explorer* const e = interleavings::explorer::current();
  if (!c.ticks || e == nullptr || !e->is_first()) return start;
  if (!c.late) c.late = ++c.early == 6 || e->choose(2) == 1;
  return c.late ? end : start;
}

} // namespace gsched::channel::detail
