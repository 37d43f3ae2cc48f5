// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>
#include <gsched/server/detail/futex.hpp>

#include <cstdint>

namespace gsched::detail {

/// Wakes the one thread that sleeps until there is work.
///
/// Cost     ring: one exchange, and a system call only if the other sleeps.
/// Threads  ring from any, after the work was published; the rest from one.
class doorbell {
public:
  void ring() noexcept {
    // [D1] acq_rel <-> [D1] acq_rel: whichever exchange is later sees what was before the other.
    if (asleep_.exchange(0, sync::acq_rel) == 1) futex_wake_all(asleep_);
  }

  /// Sleeps until ring or the deadline, unless something() holds.
  template <class F>
  void sleep_unless(F something, std::int64_t deadline_ns = never_ns) noexcept {
    asleep_.exchange(1, sync::acq_rel); // [D1]
    if (!something())
      while (asleep_.load(sync::acquire) == 1 && // [D1] acquire <- [D1] in ring
             (deadline_ns == never_ns || now_ns() < deadline_ns))
        futex_wait(asleep_, 1, deadline_ns);
    asleep_.exchange(0, sync::acq_rel); // [D1]
  }

private:
  alignas(sync::cache_line) futex_word asleep_{0};
};

} // namespace gsched::detail
