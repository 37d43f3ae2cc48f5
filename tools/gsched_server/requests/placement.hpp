// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/requests/device_slot.hpp"
#include "gsched_server/requests/served.hpp"

#include <gsched/core/time.hpp>

#include <memory>
#include <span>
#include <vector>

namespace gsched_server {

/// Chooses a device for a request: of those that hold its model and work, the one with the least
/// queued time (queued_time), and of equal ones the first. Adds the model's time there; the caller
/// removes it at the request's end. Null if none of them works.
///
/// What other threads place meanwhile is seen: of several that choose at once, each adds to a sum
/// that is as it has read it. A sum that has fallen since it was read may be missed.
///
/// Cost     a load or two for each place, and one exchange unless others interfere.
/// Threads  any.
[[nodiscard]] inline const served::place*
try_place(std::span<const served::place> among,
          const std::vector<std::unique_ptr<device_slot>>& devices) noexcept {
  for (;;) {
    const served::place* best = nullptr;
    gsched::duration least{};
    for (const served::place& each : among) {
      const device_slot& on = *devices[each.device];
      if (!on.was_working()) continue;
      if (const gsched::duration t = on.queued.was(); best == nullptr || t < least) {
        best = &each;
        least = t;
      }
    }
    if (best == nullptr || devices[best->device]->queued.try_add(least, best->alone)) return best;
  }
}

} // namespace gsched_server
