// SPDX-License-Identifier: Apache-2.0
#include "interference/fitting.hpp"
#include "interference/refusal.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <span>
#include <vector>

namespace gsched::testing {
namespace {

using interference::fit_linear;
using interference::fit_values;
using interference::linear_sample;
using interference::unknown;

std::vector<linear_sample> samples_of(const linear_law& law, std::size_t n) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> any(0, 0.5);
  std::vector<linear_sample> samples;
  for (std::size_t i = 0; i < n; ++i) {
    linear_sample s;
    s.own = {any(random), any(random)};
    s.other = {any(random), any(random)};
    s.slowdown = law.slowdown(s.own, s.other);
    samples.push_back(s);
  }
  return samples;
}

} // namespace

TEST_CASE("fitting recovers the coefficients of synthetic measurements") {
  linear_law law;
  law.c = {0.07, 0.47, -0.1, 0.02, 1.2};
  for (const std::size_t n : {5u, 6u, 300u}) {
    const linear_law found = fit_linear(samples_of(law, n), "t");
    for (std::size_t i = 0; i < law.c.size(); ++i) CHECK(found.c[i] == doctest::Approx(law.c[i]));
  }
}

TEST_CASE("fitting minimises relative errors") {
  // Two pairs alike but for what was measured, 1 and 3: 1.2 is off by 20% and 60%, 2 by 100% and
  // 33%.
  linear_law law;
  law.c = {0.1, 0.1, 0.1, 0.1, 1};
  std::vector<linear_sample> samples = samples_of(law, 40);
  for (linear_sample& s : samples) s.slowdown = 1;
  std::vector<linear_sample> both = samples;
  for (linear_sample& s : samples) {
    s.slowdown = 3;
    both.push_back(s);
  }
  CHECK(fit_linear(both, "t").slowdown({0, 0}, {0, 0}) == doctest::Approx(1.2));
}

TEST_CASE("too few or too similar measurements are refused in one line") {
  linear_law law;
  law.c = {0.1, 0.2, 0.3, 0.4, 1};
  CHECK(refusal([&] { static_cast<void>(fit_linear(samples_of(law, 4), "disjoint")); }) ==
        "disjoint: 4 measurements, expected at least as many as the 5 coefficients");
  const std::vector<linear_sample> alike(20, samples_of(law, 1)[0]);
  CHECK(refusal([&] { static_cast<void>(fit_linear(alike, "disjoint")); }) ==
        "disjoint: the measurements tell only 1 of 5 coefficients apart, expected more different "
        "graphs");
  const std::vector<unknown> unknowns(2);
  const auto one = [](std::span<const double>) { return std::vector<double>{0}; };
  CHECK(refusal([&] { static_cast<void>(fit_values(one, unknowns, "kernels")); }) ==
        "kernels: 1 measurements, expected at least as many as the 2 coefficients");
}

TEST_CASE("fitting a nonlinear law recovers its values, with outliers and within their range") {
  const auto law = [](std::span<const double> v, double x) {
    return v[0] * std::exp(-x * v[1]) + v[2];
  };
  const std::vector<double> truth{2, 0.7, 0.5};
  const auto residuals = [&](std::span<const double> v) {
    std::vector<double> r;
    for (int i = 0; i < 200; ++i) {
      const double x = 0.05 * i;
      const double measured = i % 40 == 7 ? 9 : law(truth, x);
      r.push_back(std::log(law(v, x) / measured));
    }
    return r;
  };
  const std::vector<unknown> unknowns{{1, 0.2, 0.01, 10}, {1, 0.2, 0, 10}, {1, 0.1, 0.01, 10}};
  const std::vector<double> found = fit_values(residuals, unknowns, "t");
  for (std::size_t i = 0; i < truth.size(); ++i)
    CHECK(found[i] == doctest::Approx(truth[i]).epsilon(0.05));

  std::vector<unknown> narrow = unknowns;
  narrow[0].most = 1.5;
  CHECK(fit_values(residuals, narrow, "t")[0] <= 1.5);
}

} // namespace gsched::testing
