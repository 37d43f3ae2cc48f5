// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

namespace gsched::testing {

/// Whether this is a sanitizer's build, which takes 10 to 30 times as long.
#ifdef GSCHED_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

} // namespace gsched::testing

/// The first line of a test that serves thousands of simulated requests to compare figures: under a
/// sanitizer it is skipped with a message. Shorter tests run the same code there.
#define GSCHED_TOO_LONG_SANITIZED()                                                                \
  do {                                                                                             \
    if constexpr (gsched::testing::sanitized) {                                                    \
      MESSAGE("a sanitizer's build: passed over");                                                 \
      return;                                                                                      \
    }                                                                                              \
  } while (false)
