// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>

#include <unistd.h>

#include <cstdint>

namespace gsched::detail {

/// Says which thread may touch the requests of a server: its own, unless that is inside a driver
/// call that may not return. Then another thread can take over, for good: if the server's thread
/// ever returns from the call, it sleeps from then on and touches nothing.
///
/// Cost     leave and the return: two uncontended atomic operations.
class ownership {
public:
  /// Calls f, during which other threads may take over.
  template <class F>
  decltype(auto) lend(F f) noexcept {
    state_.store(lent, sync::release); // [W1] release -> [W1] acquire in try_take_over
    struct back {
      ownership& of;
      ~back() { of.take_back(); }
    } const on_return{*this};
    return f();
  }

  /// For a thread that has waited long enough. False while the server's thread is at work.
  [[nodiscard]] bool try_take_over() noexcept {
    std::uint32_t seen = lent;
    // [W1] acquire <- [W1] release in lend: all that the server's thread did. A second caller is
    // the same thread, or one that synchronised with it.
    return state_.compare_exchange_strong(seen, taken, sync::acquire, sync::relaxed);
  }
  [[nodiscard]] bool was_taken() const noexcept { return state_.load(sync::acquire) == taken; }

private:
  enum : std::uint32_t { held, lent, taken };

  void take_back() noexcept {
    std::uint32_t seen = lent;
    // unordered: no other thread has written anything unless it has taken over
    if (state_.compare_exchange_strong(seen, held, sync::relaxed, sync::relaxed)) return;
    for (;;) ::pause();
  }

  sync::atomic<std::uint32_t> state_{held};
};

} // namespace gsched::detail
