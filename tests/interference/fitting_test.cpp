// SPDX-License-Identifier: Apache-2.0
#include "interference/fitting.hpp"
#include "interference/refusal.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <span>
#include <vector>

namespace gsched::testing {
namespace {

using interference::fit_values;
using interference::unknown;

} // namespace

TEST_CASE("too few measurements are refused in one line") {
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
