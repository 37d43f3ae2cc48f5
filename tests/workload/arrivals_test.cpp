// SPDX-License-Identifier: Apache-2.0
#include <gsched/workload/arrivals.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

using namespace gsched;

namespace {

request_mix one_model() { return {std::vector<double>{1.0}, 1}; }

struct moments {
  double mean = 0;
  double deviation = 0;
};

/// Mean and standard deviation of a function of n gaps, in microseconds.
template <class Value>
moments gaps_of(open_arrivals a, int n, Value value) {
  double sum = 0;
  double squares = 0;
  time_point last{};
  for (int i = 0; i < n; ++i) {
    const arrival r = *a.next();
    CHECK(r.at >= last);
    const double x = value(to_us(r.at - last));
    last = r.at;
    sum += x;
    squares += x * x;
  }
  return {sum / n, std::sqrt(squares / n - sum / n * sum / n)};
}
double same(double x) { return x; }

// A near miss breaks one clause of the concept.
struct base {
  std::optional<arrival> next() { return {}; }
  void on_reply(client_id, time_point) {}
};
struct endless : base {
  arrival next() { return {}; }
};
struct timeless : base {
  void on_reply(client_id) {}
};
static_assert(arrival_source<base>);
static_assert(!arrival_source<endless> && !arrival_source<timeless>);

} // namespace

TEST_CASE("a Poisson process has its rate, and exponential gaps") {
  const moments m = gaps_of(open_arrivals::poisson(2000, one_model(), 1), 200000, same);
  CHECK(m.mean == doctest::Approx(500).epsilon(0.01));
  CHECK(m.deviation == doctest::Approx(500).epsilon(0.02));
}

TEST_CASE("lognormal gaps keep the rate for any sigma, and have that sigma") {
  for (const double sigma : {0.0, 0.5, 1.0, 1.5, 2.0}) {
    CAPTURE(sigma);
    const auto source = [&] { return open_arrivals::lognormal(1000, sigma, one_model(), 7); };
    const int n = 400000;
    const double spread = std::sqrt(std::expm1(sigma * sigma) / n); // of the mean's estimate
    CHECK(std::abs(gaps_of(source(), n, same).mean / 1000 - 1) <= 4 * spread + 1e-6);
    const moments logs = gaps_of(source(), n, [](double us) { return std::log(us + 1e-4); });
    CHECK(logs.deviation == doctest::Approx(sigma).epsilon(0.01));
    CHECK(logs.mean == doctest::Approx(std::log(1000) - sigma * sigma / 2).epsilon(0.01));
  }
}

TEST_CASE("rounding does not raise a rate of one request a nanosecond") {
  const moments m = gaps_of(open_arrivals::poisson(1e9, one_model(), 3), 100000, same);
  CHECK(m.mean == doctest::Approx(1e-3).epsilon(0.02));
}

TEST_CASE("equal seeds give equal requests, those of the reference") {
  const std::vector<double> weights{2, 1};
  const auto draw = [&](std::uint64_t seed) {
    open_arrivals a = open_arrivals::lognormal(1000, 1.5, request_mix(weights, 3), seed);
    std::vector<arrival> all;
    for (int i = 0; i < 6; ++i) all.push_back(*a.next());
    return all;
  };
  const std::vector<arrival> first = draw(42);
  CHECK(first == draw(42));
  CHECK(!(first == draw(43)));
  // Computed by another program from the definitions of the engine and of the transforms.
  constexpr std::array<std::int64_t, 6> at_ns{64521, 696773, 779420, 2216446, 2290124, 2639438};
  constexpr std::array<std::uint32_t, 6> models{1, 0, 0, 0, 1, 0};
  for (std::size_t i = 0; i < first.size(); ++i) {
    CAPTURE(i);
    CHECK(index(first[i].client) == i % 3);
    CHECK(first[i].at.time_since_epoch().count() == at_ns[i]);
    CHECK(first[i].model == models[i]);
  }
}

TEST_CASE("models and clients are drawn by weight, and never with weight 0") {
  request_mix m({3, 0, 1}, std::vector<double>{0, 1, 4});
  random_engine r(5);
  std::array<int, 3> models{}, clients{};
  for (int i = 0; i < 100000; ++i) {
    ++models[m.model(r)];
    ++clients[index(m.client(r))];
  }
  CHECK(models[0] == doctest::Approx(75000).epsilon(0.02));
  CHECK(models[1] == 0);
  CHECK(models[2] == doctest::Approx(25000).epsilon(0.03));
  CHECK(clients[0] == 0);
  CHECK(clients[1] == doctest::Approx(20000).epsilon(0.03));
}

TEST_CASE("an open loop does not wait for replies") {
  open_arrivals a = open_arrivals::poisson(10, one_model(), 1);
  open_arrivals b = open_arrivals::poisson(10, one_model(), 1);
  for (int i = 0; i < 100; ++i) {
    b.on_reply(client_id{0}, time_point{from_us(1e6 * i)});
    CHECK(*a.next() == *b.next());
  }
}

TEST_CASE("a closed loop keeps its number of requests outstanding, clients round robin") {
  any_arrival_source a = closed_arrivals(3, from_us(5), request_mix({1.0}, 2), 1);
  std::deque<arrival> outstanding;
  for (int i = 0; i < 3; ++i) outstanding.push_back(*a.next());
  CHECK(!a.next());
  CHECK(index(outstanding[0].client) == 0);
  CHECK(index(outstanding[1].client) == 1);
  CHECK(index(outstanding[2].client) == 0);
  for (int i = 1; i <= 50; ++i) {
    const client_id done = outstanding.front().client;
    outstanding.pop_front();
    a.on_reply(done, time_point{from_us(10.0 * i)});
    outstanding.push_back(*a.next());
    CHECK(outstanding.back().at == time_point{from_us(10.0 * i + 5)});
    CHECK(outstanding.back().client == done);
    CHECK(!a.next());
  }
}

TEST_CASE("bad arguments are refused") {
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (const double rate : {0.0, -1.0, none, std::numeric_limits<double>::infinity(), 1e-320})
    CHECK_THROWS_WITH_AS(open_arrivals::poisson(rate, one_model(), 1),
                         doctest::Contains("expected requests per second above 0"), error);
  for (const double sigma : {-0.1, 11.0, none})
    CHECK_THROWS_WITH_AS(open_arrivals::lognormal(1, sigma, one_model(), 1),
                         doctest::Contains("expected 0 to 10"), error);
  CHECK_THROWS_AS(closed_arrivals(0, duration{}, one_model(), 1), error);
  CHECK_THROWS_AS(closed_arrivals(1, duration{-1}, one_model(), 1), error);
  CHECK_THROWS_AS(request_mix({1.0}, 0u), error);
  for (const std::vector<double>& weights :
       {std::vector<double>{}, {0.0, 0.0}, {1.0, -1.0}, {none}, {1e308, 1e308}}) {
    CHECK_THROWS_AS(request_mix(weights, 1u), error);
    CHECK_THROWS_AS(request_mix({1.0}, weights), error);
  }
}
