// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace gsched::sim {

/// Where all that is random in a workload comes from. The engine's output is fixed by the standard;
/// the distributions of the standard library are not, so they are written out here.
using random_engine = std::mt19937_64;

/// In [0, 1), a multiple of 2^-53.
[[nodiscard]] inline double uniform(random_engine& r) {
  return static_cast<double>(r() >> 11) * 0x1p-53;
}

/// Mean 1.
[[nodiscard]] inline double exponential(random_engine& r) { return -std::log1p(-uniform(r)); }

/// Mean 0, variance 1. Uses the engine twice.
///
/// Source   Box & Muller, Ann. Math. Statist. 29(2), 1958, doi:10.1214/aoms/1177706645.
[[nodiscard]] inline double normal(random_engine& r) {
  const double radius = std::sqrt(2 * exponential(r));
  return radius * std::cos(2 * std::numbers::pi * uniform(r));
}

/// Mean 1 for any sigma, which is the deviation of the logarithm.
[[nodiscard]] inline double lognormal(random_engine& r, double sigma) {
  return std::exp(sigma * normal(r) - sigma * sigma / 2);
}

} // namespace gsched::sim
