// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace gsched {

/// The random engine of every workload. The C++ standard fixes the engine's output but not that of
/// its distributions, so the functions below implement the distributions.
using random_engine = std::mt19937_64;

/// Draws from the uniform distribution on [0, 1): a multiple of 2^-53.
[[nodiscard]] inline double draw_uniform(random_engine& r) {
  return static_cast<double>(r() >> 11) * 0x1p-53;
}

/// Draws from the exponential distribution of mean 1.
[[nodiscard]] inline double draw_exponential(random_engine& r) {
  return -std::log1p(-draw_uniform(r));
}

/// Draws from the normal distribution of mean 0 and variance 1. Calls the engine twice.
///
/// Source   Box & Muller, Ann. Math. Statist. 29(2), 1958, doi:10.1214/aoms/1177706645.
[[nodiscard]] inline double draw_normal(random_engine& r) {
  const double radius = std::sqrt(2 * draw_exponential(r));
  return radius * std::cos(2 * std::numbers::pi * draw_uniform(r));
}

/// Draws from the lognormal distribution of mean 1. `sigma` is the standard deviation of the
/// logarithm.
[[nodiscard]] inline double draw_lognormal(random_engine& r, double sigma) {
  return std::exp(sigma * draw_normal(r) - sigma * sigma / 2);
}

} // namespace gsched
