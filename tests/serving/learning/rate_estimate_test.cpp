// SPDX-License-Identifier: Apache-2.0
#include "serving/instant.hpp"

#include <gsched/serving/learning/rate_estimate.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdint>

namespace gsched::testing {
namespace {

using namespace std::chrono_literals;

} // namespace

TEST_CASE("after a step of the rate the estimate follows the closed form") {
  const double weight = 0.3;
  rate_estimate r({}, {1s, weight});
  // 40 a second for 5 s, then 400 a second: requests at the middles of equal parts of a window.
  const auto come = [&](int second, int n) {
    for (int i = 0; i < n; ++i) r.arrive(at(second * 1s + (2 * i + 1) * 1s / (2 * n)));
  };
  for (int s = 0; s < 5; ++s) come(s, 40);
  CHECK(r.rate(at(5s)) == doctest::Approx(40));
  for (int k = 1; k <= 12; ++k) {
    come(4 + k, 400);
    CHECK(r.rate(at((5 + k) * 1s)) == doctest::Approx(400 - 360 * std::pow(1 - weight, k)));
  }
}

TEST_CASE("empty windows decay the estimate, in one call or many") {
  rate_estimate r({}, {100ms, 0.5});
  for (int i = 0; i < 30; ++i) r.arrive(at(i * 10ms), 3);
  const double before = r.rate(at(300ms));
  CHECK(before == doctest::Approx(300));
  for (int k = 0; k < 20; ++k) {
    CHECK(r.rate(at(300ms + k * 100ms)) == doctest::Approx(before * std::pow(0.5, k)));
    CHECK(r.rate(at(399ms + k * 100ms)) == doctest::Approx(before * std::pow(0.5, k)));
  }
  r.arrive(at(300ms + 2s)); // all windows between are closed by one call
  CHECK(r.rate(at(300ms + 2s)) == doctest::Approx(before * std::pow(0.5, 20)));
  CHECK(r.rate(at(1h)) < 1e-300);
}

TEST_CASE("within the first window the estimate is requests over elapsed time") {
  rate_estimate r(at(10s), {1s, 0.3});
  CHECK(r.rate(at(10s)) == 0);
  r.arrive(at(10s + 100ms), 5);
  CHECK(r.rate(at(10s + 250ms)) == doctest::Approx(20));
  CHECK(r.rate(at(11s)) == doctest::Approx(5));
}

TEST_CASE("bad windows and weights are refused") {
  CHECK_THROWS_AS(rate_estimate({}, {0s, 0.3}), error);
  CHECK_THROWS_AS(rate_estimate({}, {1s, 0}), error);
  CHECK_THROWS_AS(rate_estimate({}, {1s, 1.1}), error);
}

} // namespace gsched::testing
