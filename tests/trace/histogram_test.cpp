// SPDX-License-Identifier: Apache-2.0
#include <gsched/trace/histogram.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

using namespace gsched;
using trace::histogram;

namespace {

constexpr double promised = 1.0 / 128;

duration exact_percentile(const std::vector<duration>& sorted, double fraction) {
  const auto n = static_cast<double>(sorted.size());
  const auto rank = std::max(1.0, std::ceil(fraction * n));
  return sorted[static_cast<std::size_t>(rank) - 1];
}

/// Everything that a histogram says, against the values themselves.
void check_against(const histogram& h, std::vector<duration> values) {
  REQUIRE(!values.empty());
  std::sort(values.begin(), values.end());
  long double sum = 0;
  for (const duration d : values) sum += static_cast<long double>(d.count());
  CHECK(h.count() == values.size());
  CHECK(h.min() == values.front());
  CHECK(h.max() == values.back());
  CHECK(std::abs(sum / static_cast<long double>(values.size()) -
                 static_cast<long double>(h.mean().count())) <= 0.501L);
  for (const double f : {0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0}) {
    const auto exact = static_cast<double>(exact_percentile(values, f).count());
    const auto told = static_cast<double>(h.percentile(f).count());
    CAPTURE(f);
    CHECK(std::abs(told - exact) <= promised * exact);
  }
}

/// Sizes over the whole range: each octave is as likely as the next.
std::vector<duration> any_durations(std::mt19937_64& random, std::size_t n) {
  std::vector<duration> values;
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = random() % 63;
    values.emplace_back(static_cast<duration::rep>(random() % (std::uint64_t{2} << bits)));
  }
  return values;
}

} // namespace

TEST_CASE("an empty histogram says zero") {
  const histogram h;
  CHECK(h.empty());
  CHECK(h.count() == 0);
  CHECK(h.min() == duration::zero());
  CHECK(h.max() == duration::zero());
  CHECK(h.mean() == duration::zero());
  CHECK(h.percentile(0.5) == duration::zero());
}

TEST_CASE("one value is told exactly, whatever it is") {
  for (const duration::rep v :
       {0l, 1l, 127l, 128l, 129l, 999'999l, 1l << 40, std::numeric_limits<long>::max()}) {
    histogram h;
    h.record(duration{v});
    CHECK(h.percentile(0.0) == duration{v});
    CHECK(h.percentile(0.5) == duration{v});
    CHECK(h.percentile(1.0) == duration{v});
    CHECK(h.mean() == duration{v});
  }
}

TEST_CASE("values below 128 ns are exact at every percentile") {
  histogram h;
  std::vector<duration> values;
  for (int v = 127; v >= 0; --v) {
    h.record(duration{v});
    values.emplace_back(v);
  }
  std::sort(values.begin(), values.end());
  for (int p = 0; p <= 100; ++p) {
    const double f = p / 100.0;
    CHECK(h.percentile(f) == exact_percentile(values, f));
  }
}

TEST_CASE("every bucket keeps the promised error, at both of its edges") {
  for (unsigned bit = 7; bit < 62; ++bit) {
    for (std::uint64_t part = 64; part < 128; ++part) {
      const auto low = static_cast<duration::rep>(part << (bit - 6));
      const auto high = static_cast<duration::rep>(((part + 1) << (bit - 6)) - 1);
      for (const duration::rep v : {low, high}) {
        histogram h;
        h.record(duration{v});
        h.record(duration{v});
        h.record(duration{std::numeric_limits<duration::rep>::max()});
        h.record(duration{0});
        const auto told = static_cast<double>(h.percentile(0.5).count());
        CHECK(std::abs(told - static_cast<double>(v)) <= promised * static_cast<double>(v));
      }
    }
  }
}

TEST_CASE("random durations: percentiles keep the promise, the rest is exact") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const auto values = any_durations(random, 1 + random() % 500);
    histogram h;
    for (const duration d : values) h.record(d);
    check_against(h, values);
  }
}

TEST_CASE("lognormal latencies of two millions") {
  std::mt19937_64 random(2);
  std::lognormal_distribution<double> us(6.0, 2.0);
  auto h = std::make_unique<histogram>();
  std::vector<duration> values;
  for (int i = 0; i < 2'000'000; ++i) {
    values.push_back(from_us(us(random)));
    h->record(values.back());
  }
  check_against(*h, values);
}

TEST_CASE("merged histograms are the histogram of all values") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    auto a = any_durations(random, 1 + random() % 100);
    const auto b = any_durations(random, random() % 100);
    histogram first, second, both;
    for (const duration d : a) first.record(d), both.record(d);
    for (const duration d : b) second.record(d), both.record(d);
    first.merge(second);
    CHECK(first.mean() == both.mean());
    for (int p = 0; p <= 100; ++p) CHECK(first.percentile(p / 100.0) == both.percentile(p / 100.0));
    a.insert(a.end(), b.begin(), b.end());
    check_against(first, a);
  }
}

TEST_CASE("the mean survives sums beyond 64 bits") {
  histogram h;
  const duration::rep most = std::numeric_limits<duration::rep>::max();
  for (int i = 0; i < 9; ++i) h.record(duration{most - i});
  CHECK(h.mean() == duration{most - 4});
}

TEST_CASE("clear forgets everything") {
  histogram h;
  h.record(duration{1'000'000});
  h.clear();
  CHECK(h.empty());
  CHECK(h.max() == duration::zero());
  h.record(duration{5});
  CHECK(h.percentile(1.0) == duration{5});
}
