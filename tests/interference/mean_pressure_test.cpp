// SPDX-License-Identifier: Apache-2.0
#include "interference/chains.hpp"

#include <gsched/core/time.hpp>
#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/corun_factors.hpp>
#include <gsched/interference/mean_pressure.hpp>
#include <gsched/interference/mean_slowdown.hpp>
#include <gsched/interference/solo_metrics.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace gsched::testing {
namespace {

interference_coefficients usual_law() {
  interference_coefficients c;
  c.contention.l2_latency = 0.3;
  c.contention.dram_latency = 0.5;
  c.replay = {0.6, 0.1};
  return c;
}

/// Kernels that take so much of L2 and DRAM one after the other, and the mean of that.
chain_and_mean phases(double us, const std::vector<double>& uses) {
  std::vector<chain_kernel> kernels;
  mean_use mean;
  for (const double use : uses) {
    chain_kernel k = kernel(us, 64, 8, 4);
    k.takes.of(resource::l2) = k.takes.of(resource::dram) = use;
    k.takes.kept = 0.5;
    kernels.push_back(k);
    mean.l2 += use / static_cast<double>(uses.size());
  }
  mean.dram = mean.l2;
  mean.kept = 0.5;
  mean.lost = {0.0};
  chain_and_mean g{chain(kernels), mean};
  g.chain.gap_us = 0.5;
  use_kernels(g.use, g.chain);
  return g;
}

std::vector<chain_and_mean> some_graphs(std::uint64_t seed, std::size_t n) {
  std::mt19937_64 random(seed);
  std::vector<chain_and_mean> graphs;
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> uses;
    for (int k = 0; k < 5; ++k)
      uses.push_back(std::uniform_real_distribution<double>(0, 0.9)(random));
    graphs.push_back(phases(std::uniform_real_distribution<double>(3, 60)(random), uses));
  }
  return graphs;
}

/// What kernels say of all graphs beside that one.
std::vector<double> slowed_beside(const std::vector<chain_and_mean>& graphs,
                                  const chain_and_mean& neighbour) {
  const interference_coefficients c = usual_law();
  std::vector<double> all;
  for (const chain_and_mean& g : graphs)
    all.push_back(
        beside({&g.chain, &neighbour.chain}, c.contention, c.replay, {8000, 2}, false)[0]);
  return all;
}

/// Sum of the squared relative errors of what means say of them beside one of that pressure. The
/// pressure of 1 is one more graph, slowed by 4.5%.
double misfit(const std::vector<chain_and_mean>& graphs, const std::vector<double>& slowed,
              mean_use neighbour, double pressure) {
  neighbour.factors.pressure = pressure;
  double sum = std::pow(0.045 * (pressure - 1), 2);
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const double mean = mean_slowdown(usual_law(), graphs[i].use, neighbour.as_neighbour());
    sum += std::pow(mean / slowed[i] - 1, 2);
  }
  return sum;
}

} // namespace

TEST_CASE("mean_pressure: no other pressure fits the slow-downs by kernels better") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const std::vector<chain_and_mean> graphs = some_graphs(seed, 4);
    const std::vector<double> found = mean_pressures(graphs, usual_law());
    REQUIRE(found.size() == graphs.size());
    for (std::size_t j = 0; j < graphs.size(); ++j) {
      const std::vector<double> slowed = slowed_beside(graphs, graphs[j]);
      double least = misfit(graphs, slowed, graphs[j].use, found[j]);
      for (double p = corun_factors::least; p <= 3; p *= 1.01)
        least = std::min(least, misfit(graphs, slowed, graphs[j].use, p));
      // Not the very least, as slow-downs are not quite linear in the pressure.
      CHECK(misfit(graphs, slowed, graphs[j].use, found[j]) <= 1.05 * least + 1e-6);
    }
  }
}

TEST_CASE("mean_pressure: a graph whose traffic comes in bursts slows more than its mean says") {
  const chain_and_mean steady = phases(20, {0.4, 0.4, 0.4, 0.4, 0.4, 0.4}),
                       bursts = phases(20, {0, 0, 0, 0.8, 0.8, 0.8});
  REQUIRE(steady.use.l2 == doctest::Approx(bursts.use.l2));
  const std::vector<double> found = mean_pressures(std::vector{steady, bursts}, usual_law());
  CHECK(found[1] > 1.05 * found[0]);
}

TEST_CASE("mean_pressure: it is drawn to 1 where all slow-downs are small") {
  const auto found = [](double use) {
    std::vector<chain_and_mean> graphs{phases(20, {use, use, use})};
    graphs[0].use.l2 /= 2; // the mean misses half of the traffic
    graphs[0].use.dram /= 2;
    graphs[0].use.starts = 0;
    graphs[0].chain.gap_us = 0;
    return mean_pressures(graphs, usual_law())[0];
  };
  CHECK(found(0.6) > 1.5);
  CHECK(found(0.05) == doctest::Approx(1).epsilon(0.1));
}

TEST_CASE("mean_pressure: 1 for graphs that slow none, and no graph has no number") {
  std::vector<chain_and_mean> graphs = some_graphs(5, 2);
  graphs.push_back(phases(20, {0, 0}));
  graphs.back().use.starts = 0;
  graphs.back().use.exposed = 0;
  for (chain_and_mean& g : graphs) g.chain.at_start = {0.0};
  CHECK(mean_pressures(graphs, usual_law())[2] == 1);
  CHECK(mean_pressures({}, usual_law()).empty());
}

TEST_CASE("mean_pressure: within the bounds, however wrong the mean is") {
  std::vector<chain_and_mean> graphs = some_graphs(6, 3);
  graphs[0].use.l2 = graphs[0].use.dram = 1e-6;
  graphs[1].use.l2 = graphs[1].use.dram = 1;
  graphs[1].use.starts = 50;
  for (const double p : mean_pressures(graphs, usual_law())) {
    CHECK(p >= corun_factors::least);
    CHECK(p <= corun_factors::most);
  }
}

TEST_CASE("mean_pressure: factors count as 1, and the same graphs have the same numbers") {
  std::vector<chain_and_mean> graphs = some_graphs(7, 5);
  std::atomic<int> pairs = 0;
  const std::vector<double> found = mean_pressures(graphs, usual_law(), [&] { ++pairs; });
  CHECK(pairs == 15);
  for (chain_and_mean& g : graphs) {
    g.chain.factors = {3, 0.3};
    g.use.factors = {0.2, 5};
  }
  CHECK(mean_pressures(graphs, usual_law()) == found);
}

TEST_CASE("mean_pressure: rows of solo metrics have it in means, times their own pressure") {
  solo_table t;
  solo_metrics row{"a", 2, from_us(100), 0.2, 0.1, 0.5};
  row.factors = {1.5, 0.5};
  row.mean_pressure = 1.2;
  t.add(row);
  row.batch = 6;
  row.mean_pressure = 0.8;
  t.add(row);
  row.model = "b";
  row.factors.pressure = 9;
  row.mean_pressure = 2;
  t.add(row);
  const auto of = [&](const char* model, std::uint32_t batch) {
    return t.rates(model, batch, from_us(100))->factors;
  };
  CHECK(of("a", 1) == corun_factors{1.5, 0.6});
  CHECK(of("a", 2) == corun_factors{1.5, 0.6});
  CHECK(of("a", 4).pressure == doctest::Approx(0.5));
  CHECK(of("a", 6).pressure == doctest::Approx(0.4));
  CHECK(of("a", 9) == of("a", 6));
  CHECK(of("b", 6) == corun_factors{1.5, corun_factors::most});
  CHECK(t.find("a", 2)->factors == corun_factors{1.5, 0.5}); // as predictions by kernels have it
}

} // namespace gsched::testing
