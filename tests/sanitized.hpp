// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gsched::testing {

/// Whether this is a sanitizer's build, which takes 10 to 30 times as long. Cases that serve
/// thousands of simulated requests to compare figures are skipped there: shorter ones run the same
/// code.
#ifdef GSCHED_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

} // namespace gsched::testing
