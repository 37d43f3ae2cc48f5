// SPDX-License-Identifier: Apache-2.0
#include "drawn_numbers.hpp"

#include <gsched/core/latest_line.hpp>
#include <gsched/core/latest_mean.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace gsched;
using gsched::testing::unit;

TEST_CASE("latest_mean: the mean and spread of the values, and later of the latest ones") {
  latest_mean m;
  CHECK(m.seen() == 0);
  for (int i = 1; i <= 5; ++i) m.learn(i, 100);
  CHECK(m.mean() == doctest::Approx(3));
  CHECK(m.deviation() == doctest::Approx(std::sqrt(2.0)));
  for (int i = 0; i < 1000; ++i) m.learn(7, 10);
  CHECK(m.mean() == doctest::Approx(7));
  CHECK(m.deviation() < 0.01);
  CHECK(m.seen() == 10);
}

TEST_CASE("latest_line: points on a line give that line") {
  latest_line l;
  l.learn(1, 5, 100);
  CHECK(l.slope() == 0); // one point has none
  CHECK(l.mean_at(10) == doctest::Approx(5));
  for (int i = 2; i <= 8; ++i) l.learn(i, 3 + 2 * i, 100);
  CHECK(l.slope() == doctest::Approx(2));
  CHECK(l.mean_at(0) == doctest::Approx(3));
  CHECK(l.mean_at(100) == doctest::Approx(203));
  CHECK(l.mean_cause() == doctest::Approx(4.5));
  CHECK(l.cause_variance() == doctest::Approx(5.25));
  CHECK(l.off_line() < 1e-6);
  latest_line same;
  for (int i = 0; i < 10; ++i) same.learn(4, i, 100); // the cause never differs
  CHECK(same.slope() == 0);
  CHECK(same.mean_at(9) == doctest::Approx(4.5));
}

TEST_CASE("latest_line: what the cause explains is not in the spread, and means are comparable") {
  std::mt19937_64 random(1);
  double plain = 0;
  double adjusted = 0;
  constexpr int rounds = 300;
  for (int round = 0; round < rounds; ++round) {
    latest_line l;
    double sum = 0;
    for (int i = 0; i < 16; ++i) {
      const double cause = 10 * unit(random);
      const double effect = 0.5 * cause + 0.2 * (unit(random) - 0.5);
      l.learn(cause, effect, 100);
      sum += effect;
    }
    plain += std::pow(sum / 16 - 2.5, 2);
    adjusted += std::pow(l.mean_at(5) - 2.5, 2);
    CHECK(l.off_line() == doctest::Approx(0.2 / std::sqrt(12.0)).epsilon(0.6));
  }
  CHECK(adjusted < plain / 100); // far fewer pairs are enough
}

TEST_CASE("latest_line: older pairs count less and less") {
  latest_line l;
  for (int i = 0; i < 100; ++i) l.learn(i % 7, 1.0 * (i % 7), 20);
  for (int i = 0; i < 200; ++i) l.learn(i % 7, 10 + 3.0 * (i % 7), 20);
  CHECK(l.slope() == doctest::Approx(3).epsilon(0.01));
  CHECK(l.mean_at(0) == doctest::Approx(10).epsilon(0.01));
}
