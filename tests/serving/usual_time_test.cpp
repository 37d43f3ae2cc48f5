// SPDX-License-Identifier: Apache-2.0
#include <gsched/serving/detail/usual_time.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace gsched::testing {
namespace {

using namespace std::chrono_literals;
using detail::usual_time;

duration median_of(std::vector<duration> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

} // namespace

TEST_CASE("usual_time: stays near the median where a fifth of the durations are long") {
  std::mt19937_64 random(7);
  for (const double spread : {0.1, 0.5, 1.5}) {
    CAPTURE(spread);
    std::lognormal_distribution<double> times(std::log(30e3), spread);
    usual_time u;
    std::vector<duration> all;
    for (int i = 0; i < 5000; ++i) {
      const duration d = i % 5 == 0 ? duration{20ms} : duration{std::llround(times(random))};
      all.push_back(d);
      u.observe(d);
    }
    const double part =
        static_cast<double>(u.value().count()) / static_cast<double>(median_of(all).count());
    CHECK(std::abs(std::log(part)) < 0.3 + 0.2 * spread);
  }
}

TEST_CASE("usual_time: starts with the first duration, and follows a change") {
  usual_time u;
  CHECK(u.value() == duration::max());
  u.observe(10ms);
  CHECK(u.value() == 10ms);
  for (int i = 0; i < 130; ++i) u.observe(30us);
  CHECK(u.value() == 30us);
  for (int i = 0; i < 50; ++i) u.observe(300us);
  CHECK(u.value() == 300us);
  for (int i = 0; i < 1000; ++i) u.observe(0us);
  CHECK(u.value() == 1us); // the least
}

} // namespace gsched::testing
