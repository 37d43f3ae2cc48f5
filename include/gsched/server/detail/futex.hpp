// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstdint>

namespace gsched::detail {

/// CLOCK_MONOTONIC in nanoseconds.
[[nodiscard]] inline std::int64_t now_ns() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

inline constexpr std::int64_t never_ns = INT64_MAX;

/// The end of a wait of so many microseconds from now; a negative one never ends.
[[nodiscard]] inline std::int64_t deadline_after_us(std::int64_t us) noexcept {
  if (us < 0) return never_ns;
  const std::int64_t now = now_ns();
  return us > (never_ns - now) / 1000 ? never_ns : now + us * 1000;
}

using futex_word = sync::atomic<std::uint32_t>;
static_assert(sizeof(futex_word) == sizeof(std::uint32_t) && futex_word::is_always_lock_free);

/// Sleeps while the word is `expected`, up to the deadline; may return for nothing.
inline void futex_wait(const futex_word& word, std::uint32_t expected,
                       std::int64_t deadline_ns = never_ns) noexcept {
  timespec until{};
  until.tv_sec = deadline_ns / 1'000'000'000;
  until.tv_nsec = deadline_ns % 1'000'000'000;
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected,
          deadline_ns == never_ns ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

inline void futex_wake_all(const futex_word& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace gsched::detail
