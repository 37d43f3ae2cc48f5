// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"

#include <gsched/partition/detail/packing/capacity.hpp>
#include <gsched/partition/detail/packing/duty_cycle.hpp>
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace gsched::testing {

using namespace detail;

namespace {

/// The smallest worst ratio of latency to SLO, over all cycles of whole microseconds.
std::optional<double> by_trying(const latency_table& t, sm_count sms,
                                const std::vector<model_demand>& demands, double factor) {
  std::optional<double> best;
  duration most{};
  for (const model_demand& d : demands) most = std::max(most, d.slo);
  for (duration cycle = std::chrono::microseconds{1}; cycle <= most;
       cycle += std::chrono::microseconds{1}) {
    duration all{};
    double worst = 0;
    for (const model_demand& d : demands) {
      const auto batch = static_cast<std::uint32_t>(std::ceil(d.rate * to_s(cycle) * (1 - 1e-12)));
      if (batch > t.batches(d.model).back()) return best;
      const duration time = planned_latency(t, d.model, std::max(1u, batch), sms, factor);
      all += time;
      worst = std::max(worst, static_cast<double>((cycle + time).count()) /
                                  static_cast<double>(d.slo.count()));
    }
    if (all <= cycle && worst <= 1 && (!best || worst < *best)) best = worst;
  }
  return best;
}

} // namespace

TEST_CASE("a duty cycle is optimal and meets all SLOs") {
  std::mt19937_64 random(11);
  int found = 0, none = 0;
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    const std::size_t models = 1 + random() % 3;
    const latency_table t = random_table(random, models, {8, 16, 32}, 8);
    const sm_count sms{static_cast<std::uint32_t>(8 * (1 + random() % 4))};
    const double factor = random() % 2 == 0 ? 1 : 1.25;
    std::vector<model_demand> demands;
    for (std::size_t m = 0; m < models; ++m) // periods of whole us, so that trying them finds all
      demands.push_back({m, 1e6 / static_cast<double>(10 + random() % 300),
                         std::chrono::microseconds{100 + random() % 600}});
    const auto cycle = find_duty_cycle(t, sms, demands, std::vector<double>(models, factor));
    const auto expected = by_trying(t, sms, demands, factor);
    if (expected) { // a cycle need not be of whole microseconds
      REQUIRE(cycle);
      REQUIRE(cycle->worst <= *expected + 1e-9);
    }
    ++(cycle ? found : none);
    if (!cycle) continue;
    partition_plan plan{{{0, sms, cycle->length, {}}}};
    for (std::size_t m = 0; m < models; ++m)
      plan.gpulets[0].portions.push_back({m, demands[m].rate, cycle->batches[m]});
    const auto slower = [&](std::span<const gpulet>, std::size_t, std::size_t) { return factor; };
    const gpu_shape shape{sm_count{32}, sm_count{8}};
    const std::vector<std::string> faults =
        faults_of(plan, demands, t, std::span(&shape, 1), slower);
    REQUIRE_MESSAGE(faults.empty(), faults.front());
    if (expected && factor == 1) REQUIRE(cycle->worst >= *expected - 1.0 / 100);
  }
  CHECK(found > 500);
  CHECK(none > 500);
}

TEST_CASE("a model's capacity is the highest rate that has a duty cycle") {
  std::mt19937_64 random(12);
  for (int i = 0; i < 500; ++i) {
    const latency_table t = random_table(random, 1, {8, 16, 32}, random() % 2 ? 16 : 0);
    const duration slo = std::chrono::microseconds{20 + random() % 2000};
    double before = 0;
    for (const std::uint32_t s : {8u, 12u, 16u, 24u, 32u}) {
      const capacity c = capacity_of(t, 0, sm_count{s}, slo);
      REQUIRE(c.rate >= before); // more SMs do no harm
      before = c.rate;
      if (c.rate == 0) {
        const model_demand least{0, 1e-3, slo};
        if (2 * t.latency(0, 1, sm_count{s}) > slo)
          REQUIRE(!find_duty_cycle(t, sm_count{s}, std::span(&least, 1)));
        continue;
      }
      REQUIRE(c.rate == doctest::Approx(c.batch / to_s(t.latency(0, c.batch, sm_count{s}))));
      for (std::uint32_t b = 1; b <= 16; ++b)
        if (2 * t.latency(0, b, sm_count{s}) <= slo)
          REQUIRE(b / to_s(t.latency(0, b, sm_count{s})) <= c.rate * (1 + 1e-4));
      const model_demand less{0, c.rate * 0.9999, slo};
      REQUIRE(find_duty_cycle(t, sm_count{s}, std::span(&less, 1)));
      const model_demand more{0, c.rate * 1.001, slo};
      REQUIRE(!find_duty_cycle(t, sm_count{s}, std::span(&more, 1)));
    }
  }
}

} // namespace gsched::testing
