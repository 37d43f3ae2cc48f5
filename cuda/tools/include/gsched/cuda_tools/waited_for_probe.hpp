// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gsched::cuda {

/// Whether a kernel waited until a probe ended: it took `once_us` beside one that ends after
/// `limit_us`, and `twice_us` beside one that ends after twice that. A kernel that waits takes
/// `limit_us` longer the second time. A kernel that the probe slows by less than twenty times does
/// not: it works meanwhile.
[[nodiscard]] constexpr bool waited_for_probe(double once_us, double twice_us,
                                              double limit_us) noexcept {
  constexpr double nearly = 0.95; // of that time; the rest is scatter
  return twice_us - once_us > nearly * limit_us;
}

} // namespace gsched::cuda
