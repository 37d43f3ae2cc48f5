// SPDX-License-Identifier: Apache-2.0
#include <gsched/serving/replanning.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <span>
#include <vector>

namespace gsched::testing {
namespace {

/// A planner that serves up to a total rate.
struct limited {
  double most;
  int asked = 0;
  double last = 0;
  std::optional<partition_plan> operator()(std::span<const model_demand> demands) {
    ++asked;
    double all = 0;
    for (const model_demand& d : demands) all += d.rate;
    if (all > most) return std::nullopt;
    last = all;
    return partition_plan{};
  }
};

/// Without corrections.
std::optional<scaled_plan> replan(replanning& r, const std::vector<model_demand>& measured,
                                  limited& ask) {
  return r.replan(measured, {}, [&](auto d, auto) { return ask(d); });
}

} // namespace

TEST_CASE("a plan has the headroom, or as much of it as the GPUs can serve") {
  const std::vector<model_demand> demands{{0, 60, {}}, {1, 40, {}}};
  for (const double most : {1000.0, 130.0, 120.0, 100.5, 99.0, 10.0, 0.01}) {
    CAPTURE(most);
    limited ask{most};
    const auto found = plan_with_headroom(std::span(demands), 1.3, 0, ask);
    REQUIRE(found);
    CHECK(found->factor <= 1.3);
    CHECK(100 * found->factor <= most * (1 + 1e-9));
    CHECK(100 * found->factor >= std::min(130.0, most / 1.011));
    CHECK(ask.last == doctest::Approx(100 * found->factor)); // the plan is for that
    CHECK(ask.asked <= 30);
  }
  const auto greedy = [](std::span<const model_demand> d) {
    return d[0].rate >= 300 ? std::optional<partition_plan>(partition_plan{}) : std::nullopt;
  };
  CHECK(plan_with_headroom(std::span(demands), 1.5, 0, greedy)->factor == 6); // 60, 40
  CHECK_FALSE(plan_with_headroom(std::span(demands), 0.1, 0, greedy));
  limited none{0};
  CHECK_FALSE(plan_with_headroom(std::span(demands), 1.3, 0, none));
}

TEST_CASE("the margin for bursts is a multiple of the root of the capacity") {
  using namespace std::chrono_literals;
  CHECK(staffed_rate(400, 10ms, 0) == 400);
  CHECK(staffed_rate(600, 10ms, 1) == doctest::Approx(900)); // 9, give or take 3
  CHECK(staffed_rate(40000, 10ms, 1) == doctest::Approx(42000).epsilon(0.002));
  CHECK(staffed_rate(0, 10ms, 1) == 0);
  for (const double rate : {0.1, 10.0, 300.0, 1e5})
    for (const double z : {0.5, 1.0, 3.0}) { // what is expected is z deviations below
      const double m = staffed_rate(rate, 10ms, z) * 0.01;
      CHECK(m - z * std::sqrt(m) == doctest::Approx(rate * 0.01));
    }
  limited ask{1e9};
  const std::vector<model_demand> demands{{0, 200, 10ms}};
  CHECK(plan_with_headroom(std::span(demands), 2, 1, ask)->factor == 2);
  CHECK(ask.last == doctest::Approx(staffed_rate(400, 10ms, 1)));
}

TEST_CASE("a plan is kept while rates stay near its own") {
  limited ask{1e9};
  replanning r({1.5, 3, 0.1, 2}); // no SLO, no clusters
  REQUIRE(replan(r, {{0, 100, {}}, {1, 0, {}}}, ask));
  CHECK(ask.last == doctest::Approx(1.5 * 102)); // of the second, the least rate
  CHECK_FALSE(replan(r, {{0, 109, {}}, {1, 2.1, {}}}, ask));
  CHECK_FALSE(replan(r, {{0, 91, {}}, {1, 1, {}}}, ask));
  CHECK(ask.asked == 1);
  REQUIRE(replan(r, {{0, 1000, {}}, {1, 0, {}}}, ask)); // tenfold
  CHECK(ask.last == doctest::Approx(1.5 * 1002));
  ask.most = 0;
  CHECK_FALSE(replan(r, {{0, 100, {}}, {1, 0, {}}}, ask));
  ask.most = 1e9;
  CHECK(replan(r, {{0, 100, {}}, {1, 0, {}}}, ask)); // asked again, for there was none
  // With too few GPUs, a plan that serves no more than the current one is not taken.
  ask.most = 120;
  CHECK_FALSE(replan(r, {{0, 120, {}}, {1, 0, {}}}, ask)); // has 150 of it, would have 120
  CHECK(replan(r, {{0, 100, {}}, {1, 20, {}}}, ask));      // has 0.15 of the second
  CHECK_THROWS_AS(replanning({0, 0, 0.1, 1}), error);
  CHECK_THROWS_AS(replanning({1.3, 0, -1, 1}), error);
  CHECK_THROWS_AS(replanning({1.3, 0, 0.1, 1, 1.1}), error);
}

TEST_CASE("a rate that falls a little keeps its planned value") {
  limited ask{1e9};
  replanning r({1, 0, 0.1, 1, 0.3});
  REQUIRE(replan(r, {{0, 100, {}}, {1, 100, {}}}, ask));
  CHECK_FALSE(replan(r, {{0, 71, {}}, {1, 105, {}}}, ask));
  REQUIRE(replan(r, {{0, 75, {}}, {1, 150, {}}}, ask));
  CHECK(ask.last == doctest::Approx(250));
  CHECK_FALSE(replan(r, {{0, 109, {}}, {1, 110, {}}}, ask));
  REQUIRE(replan(r, {{0, 69, {}}, {1, 110, {}}}, ask));
  CHECK(ask.last == doctest::Approx(69 + 150));
  REQUIRE(replan(r, {{0, 69, {}}, {1, 20, {}}}, ask));
  CHECK(ask.last == doctest::Approx(69 + 20));
}

TEST_CASE("corrections count as rates do: any rise, and a fall by more than a little") {
  limited ask{1e9};
  std::vector<double> last;
  replanning r({1.5, 0, 0.1, 1, 0.3});
  const std::vector<model_demand> rates{{0, 100, {}}, {1, 50, {}}};
  const auto replan = [&](const std::vector<double>& corrections) {
    return r.replan(rates, {corrections, {}}, [&](auto d, std::span<const double> c) {
      last.assign(c.begin(), c.end());
      return ask(d);
    });
  };
  using factors = std::vector<double>;
  REQUIRE(replan({1, 1}));
  CHECK(r.is_near(rates, {factors{1, 1}, {}}));
  CHECK(r.is_near(rates, {}));
  CHECK_FALSE(r.is_near(rates, {factors{1.06, 1}, {}}));
  CHECK(r.is_near(rates, {}));
  REQUIRE(replan({1.5, 1}));
  CHECK(last == factors{1.5, 1});
  CHECK_FALSE(replan({1.2, 1}));
  REQUIRE(replan({1.2, 1.1}));
  CHECK(last == factors{1.5, 1.1}); // the first fell only a little
  REQUIRE(replan({1, 1.1}));
  CHECK(last == factors{1, 1.1});
  // A plan that serves less than the rates is taken where batches take longer than the current one
  // assumes, which then keeps no SLO; at a fall it is not, if it serves no more.
  ask.most = 120;
  CHECK(replan({1.3, 1.1})->factor == doctest::Approx(0.8).epsilon(0.02));
  CHECK_FALSE(replan({0.8, 1.1}));
}

TEST_CASE("without a plan for the corrections, it is for the largest roots that have one") {
  replanning r({1.2, 0, 0.1, 1, 0.3});
  double most = 3;
  std::vector<double> last;
  const auto ask = [&](auto, std::span<const double> c) {
    last.assign(c.begin(), c.end());
    return c[0] > most ? std::nullopt : std::optional<partition_plan>(partition_plan{});
  };
  const std::vector<model_demand> rates{{0, 100, {}}};
  const std::vector<double> sixteen{16};
  REQUIRE(r.replan(rates, {sixteen, {}}, ask));
  CHECK(last == std::vector<double>{2});  // the fourth root
  CHECK(r.is_near(rates, {sixteen, {}})); // and it is not asked for again
  most = 0.5;
  const std::vector<double> more{17};
  CHECK_FALSE(r.replan(rates, {more, {}}, ask));
  CHECK_FALSE(r.is_near(rates, {more, {}})); // but this one is
}

TEST_CASE("margins raise planned rates where there is room for them") {
  limited ask{1e9};
  replanning r({1.5, 0, 0.1, 1, 0.3});
  const std::vector<model_demand> rates{{3, 100, {}}, {1, 50, {}}};
  const auto replan = [&](const std::vector<double>& margins) {
    return r.replan(rates, {{}, margins}, [&](auto d, auto) { return ask(d); });
  };
  using factors = std::vector<double>;
  const factors none{1, 1, 1, 1}, third{1, 1, 1, 1.2};
  REQUIRE(replan(none));
  CHECK_FALSE(r.is_near(rates, {{}, third}));
  REQUIRE(replan(third)); // by model
  CHECK(ask.last == doctest::Approx(1.5 * (120 + 50)));
  CHECK(r.is_near(rates, {{}, third}));
  CHECK(r.is_near(rates, {{}, none})); // a fall
  ask.most = 280;                      // room for more than the rates, not for the margins
  const factors both{1, 1.3, 1, 1.3};
  CHECK_FALSE(replan(both));
  CHECK(r.is_near(rates, {{}, both})); // it is not asked for again
  const std::vector<model_demand> risen{{3, 115, {}}, {1, 50, {}}};
  const auto found = r.replan(risen, {{}, both}, [&](auto d, auto) { return ask(d); });
  REQUIRE(found);
  CHECK(found->factor == 1.5);
  CHECK(ask.last == doctest::Approx(1.5 * 165)); // without margins
}

} // namespace gsched::testing
