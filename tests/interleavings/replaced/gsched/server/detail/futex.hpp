// SPDX-License-Identifier: Apache-2.0
#pragma once

// In place of the library's: to sleep is a step of an explorer, which wakes nobody by chance.

#include "interleavings/explorer.hpp"

#include <gsched/core/sync.hpp>

#include <cstdint>
#include <cstring>

namespace gsched::detail {

[[nodiscard]] inline std::int64_t now_ns() noexcept { return 1; }

inline constexpr std::int64_t never_ns = INT64_MAX;

[[nodiscard]] inline std::int64_t deadline_after_us(std::int64_t us) noexcept {
  return us < 0 ? never_ns : us * 1000;
}

using futex_word = sync::atomic<std::uint32_t>;
static_assert(sizeof(futex_word) == sizeof(std::uint32_t) && futex_word::is_always_lock_free);

/// Calls of futex_wake_all for the one word on which anything sleeps.
inline std::uint64_t& futex_wakes() noexcept {
  static std::uint64_t n = 0;
  return n;
}

inline void futex_wait(const futex_word& word, std::uint32_t expected,
                       std::int64_t = never_ns) noexcept {
  interleavings::explorer& e = *interleavings::explorer::current();
  std::uint32_t now = 0;
  const auto value = [&word] {
    std::uint32_t v = 0;
    std::memcpy(&v, &word, sizeof v); // in memory, as the kernel reads it
    return v;
  };
  std::uint64_t wakes = 0;
  const bool sleeps = e.call([&]() -> std::uint64_t {
    now = value();
    wakes = futex_wakes();
    return now == expected;
  }) != 0;
  if (sleeps) e.wait([wakes] { return futex_wakes() != wakes; });
}

inline void futex_wake_all(const futex_word& word) noexcept {
  interleavings::explorer* const e = interleavings::explorer::current();
  if (e == nullptr || !e->watches(&word)) return;
  e->call([]() -> std::uint64_t { return ++futex_wakes() * 0; });
}

} // namespace gsched::detail
