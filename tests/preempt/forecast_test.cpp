// SPDX-License-Identifier: Apache-2.0
#include "drawn_numbers.hpp"

#include <gsched/preempt/forecast.hpp>
#include <gsched/preempt/queue_bound.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

using namespace gsched;
using gsched::testing::unit;

namespace {

time_point at_us(double us) { return time_point{from_us(us)}; }

/// Arrivals until `end`, with gaps drawn from the distribution.
std::vector<double> arrivals(double end, const std::function<double()>& gap) {
  std::vector<double> all;
  for (double t = gap(); t < end; t += gap()) all.push_back(t);
  return all;
}

/// The cost of best-effort work: cuts, and the waiting of arrivals. `bound` returns the limit of a
/// segment that begins at t; `hear` is called for arrivals first.
double cost(const std::vector<double>& arrivals, double end, double cut,
            const std::function<double(double)>& bound, const std::function<void(double)>& hear) {
  double spent = 0;
  std::size_t next = 0;
  for (double t = 0; t < end;) {
    const double until = t + bound(t);
    spent += cut;
    while (next < arrivals.size() && arrivals[next] < until) {
      spent += until - arrivals[next]; // it waits for the segment
      hear(arrivals[next++]);
    }
    t = until;
  }
  return spent / end;
}

constexpr double cut_us = 2.5;

double adaptive_cost(const std::vector<double>& all, double end) {
  client_forecast f;
  const queue_bound b{from_us(cut_us), from_us(20), from_us(1600)};
  return cost(
      all, end, cut_us,
      [&](double t) {
        return to_us(b.at([&](duration next) { return f.within(at_us(t), next); }));
      },
      [&](double t) { f.arrived(at_us(t)); });
}

/// The best constant bound.
double constant_cost(const std::vector<double>& all, double end) {
  double best = 1e9;
  for (double b = 20; b <= 1600; b *= 1.05)
    best = std::min(best, cost(
                              all, end, cut_us, [&](double) { return b; }, [](double) {}));
  return best;
}

} // namespace

TEST_CASE("forecast: nothing is known, nothing is expected") {
  client_forecast f;
  CHECK(f.within(at_us(0), from_us(1e9)) == 0);
  f.arrived(at_us(10));
  CHECK(f.within(at_us(20), from_us(1e9)) == 0);
  CHECK(arrival_forecast{}.within(at_us(0), from_us(1e9)) == 0);
}

TEST_CASE("forecast: a periodic client comes when it is due, and not before") {
  client_forecast f;
  std::mt19937_64 random(1);
  double last = 0;
  for (int i = 0; i < 100; ++i) {
    last = 1000 * i + 20 * unit(random);
    f.arrived(at_us(last));
  }
  CHECK(f.variation() < 0.02);
  CHECK(f.within(at_us(last + 100), from_us(500)) < 0.01);
  CHECK(f.within(at_us(last + 850), from_us(100)) < 0.3);
  CHECK(f.within(at_us(last + 800), from_us(400)) > 0.95);
  // It has not arrived for three periods: it has stopped.
  CHECK(f.within(at_us(last + 3000), from_us(1000)) < 0.01);
}

TEST_CASE("forecast: of a Poisson client, what comes within t is 1 - exp(-rate t) at any time") {
  client_forecast f;
  std::mt19937_64 random(2);
  double t = 0;
  for (int i = 0; i < 5000; ++i) f.arrived(at_us(t += -1000 * std::log(unit(random))));
  CHECK(std::abs(f.variation() - 1) < 0.3);
  for (const double since : {50.0, 500.0, 1500.0})
    for (const double next : {20.0, 100.0, 1000.0}) {
      const double expected = 1 - std::exp(-next / 1000);
      CHECK(std::abs(f.within(at_us(t + since), from_us(next)) - expected) < 0.6 * expected);
    }
  CHECK(f.within(at_us(t + 20000), from_us(1000)) < 0.01); // silence
}

TEST_CASE("forecast: a pause is no gap, and a client that has become slower is followed") {
  client_forecast f;
  double t = 0;
  for (int i = 0; i < 50; ++i) f.arrived(at_us(t += 1000));
  f.arrived(at_us(t += 1e6));
  for (int i = 0; i < 5; ++i) f.arrived(at_us(t += 1000));
  CHECK(std::abs(f.mean_ns() - 1e6) < 1e4);
  for (int i = 0; i < 20; ++i) f.arrived(at_us(t += 30000));
  CHECK(std::abs(f.mean_ns() - 3e7) < 3e5);
}

TEST_CASE("forecast: the same arrivals give the same bits, whenever they begin") {
  client_forecast a;
  client_forecast b;
  for (int i = 0; i < 200; ++i) {
    const double gap = (i * 37 % 11 + 1) * 100.0 * i;
    a.arrived(at_us(gap));
    b.arrived(at_us(gap + 1e9));
    CHECK(a.within(at_us(gap + 50), from_us(99)) == b.within(at_us(gap + 50 + 1e9), from_us(99)));
  }
}

TEST_CASE("queue_bound: the square-root law, within its marks") {
  const queue_bound b{from_us(2.5), from_us(20), from_us(1600)};
  for (const double gap : {400.0, 1000.0, 4000.0, 20000.0}) {
    const auto poisson = [&](duration next) { return 1 - std::exp(-to_us(next) / gap); };
    const double law = std::sqrt(2 * cut_us * gap);
    CHECK(std::abs(to_us(b.at(poisson)) - law) < 0.12 * law);
  }
  CHECK(b.at([](duration) { return 0.0; }) == from_us(1600));
  CHECK(b.at([](duration) { return 1.0; }) == from_us(20));
  CHECK(queue_bound{from_us(1), from_us(50), from_us(10)}.at([](duration) { return 0.0; }) ==
        from_us(50));
}

TEST_CASE("queue_bound with a forecast: close to the best constant bound, better where it can be") {
  std::mt19937_64 random(3);
  const double end = 2e6;
  const auto poisson = [&](double mean) { return -mean * std::log(unit(random)); };
  struct {
    std::string name;
    std::function<double()> gap;
    double most; ///< of the best constant bound's cost
  } laws[] = {
      {"poisson", [&] { return poisson(2000); }, 1.15},
      {"periodic", [] { return 2000.0; }, 0.7},
      {"periodic with jitter", [&] { return 1950 + 100 * unit(random); }, 0.9},
      {"mixture", [&] { return random() % 4 ? 1000.0 : poisson(4000); }, 1.6},
      {"bursts", [&] { return random() % 5 ? poisson(200) : poisson(20000); }, 1.2},
      {"silence", [] { return 1e9; }, 1.01},
  };
  for (const auto& law : laws) {
    CAPTURE(law.name);
    const std::vector<double> all = arrivals(end, law.gap);
    const double adaptive = adaptive_cost(all, end);
    const double constant = constant_cost(all, end);
    CAPTURE(adaptive);
    CAPTURE(constant);
    CHECK(adaptive <= law.most * constant);
  }
  // A client that stops: soon it causes no more cost.
  std::vector<double> stops = arrivals(1e5, [] { return 2000.0; });
  CHECK(adaptive_cost(stops, end) < 0.5 * constant_cost(stops, 1e5));
}

TEST_CASE("forecast: a request is near from when it may come until the client counts as stopped") {
  client_forecast none;
  CHECK_FALSE(none.is_near(at_us(1000), from_us(1e6))); // it has never sent a request
  none.arrived(at_us(1000));
  CHECK(none.is_near(at_us(2000), from_us(10))); // its gaps are unknown
  CHECK_FALSE(none.is_near(at_us(2e6), from_us(10)));

  client_forecast periodic;
  for (int i = 0; i <= 40; ++i) periodic.arrived(at_us(10000.0 * i));
  const double last = 400000;
  CHECK_FALSE(periodic.is_near(at_us(last + 100), from_us(1000)));
  CHECK_FALSE(periodic.is_near(at_us(last + 4000), from_us(1000)));
  CHECK(periodic.is_near(at_us(last + 9000), from_us(1000)));
  CHECK(periodic.is_near(at_us(last + 4000), from_us(6000))); // while long work runs
  CHECK(periodic.is_near(at_us(last + 100000), from_us(1000)));
  CHECK_FALSE(periodic.is_near(at_us(last + 161000), from_us(1000)));

  // For a client without a rhythm a request is always near: none may arrive when it is not.
  std::mt19937_64 random(5);
  for (const double least : {0.0, 800.0}) { // a reply precedes the next request
    client_forecast f;
    double t = 0;
    int missed = 0;
    for (int i = 0; i < 20000; ++i) {
      const double next = t + least - 4000 * std::log(unit(random));
      if (i > 100) missed += !f.is_near(at_us(next - 500), from_us(1000));
      f.arrived(at_us(next));
      t = next;
    }
    CHECK(missed <= 20);
  }

  arrival_forecast all;
  for (int i = 0; i <= 40; ++i) {
    all.arrived(0, at_us(10000.0 * i));
    all.arrived(1, at_us(10000.0 * i + 5000));
  }
  CHECK_FALSE(all.is_near(at_us(405000 + 1000), from_us(1000)));
  CHECK(all.is_near(at_us(410000 - 1000), from_us(1000)));
}
