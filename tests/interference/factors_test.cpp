// SPDX-License-Identifier: Apache-2.0
#include "interference/chains.hpp"

#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/corun_factors.hpp>
#include <gsched/interference/mean_slowdown.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/interference/stand_in_chain.hpp>

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace gsched::testing {
namespace {

/// Kernels that take so much of L2 and DRAM, with a pause after each.
kernel_chain streaming(double us, double use) {
  std::vector<chain_kernel> kernels;
  for (int i = 0; i < 4; ++i) {
    chain_kernel k = kernel(us * (1 + 0.1 * i), 64, 8, 4);
    k.takes.of(resource::l2) = k.takes.of(resource::dram) = use;
    k.takes.kept = 0.5;
    kernels.push_back(k);
  }
  kernel_chain c = chain(kernels);
  c.gap_us = 0.5;
  return c;
}

interference_coefficients some_law() {
  interference_coefficients c;
  c.contention.l2_latency = 0.3;
  c.contention.dram_latency = 0.5;
  c.replay = {0.6, 0.3};
  return c;
}

std::vector<double> slowed(const kernel_chain& a, const kernel_chain& b, bool shared = false) {
  const interference_coefficients c = some_law();
  return beside({&a, &b}, c.contention, c.replay, {4000, 4}, shared);
}

} // namespace

TEST_CASE("factors: those learned multiply those of each row, within the bounds") {
  solo_table t;
  t.add({"a", 2, from_us(100), 0.2, 0.1, 0.5, 0, 0, 1, 0, 0.75, {1.5, 0.5}});
  t.add({"a", 6, from_us(100), 0.2, 0.1, 0.5, 0, 0, 1, 0, 0.75, {8, 0.2}});
  t.add({"b", 1, from_us(100), 0.2, 0.1, 0.5});
  t.multiply_factors("a", {2, 0.4});
  t.multiply_factors("none", {2, 2});
  CHECK(t.find("a", 2)->factors == corun_factors{3, 0.2});
  CHECK(t.find("a", 6)->factors == corun_factors{10, 0.1});
  CHECK(t.find("b", 1)->factors == corun_factors{});
}

TEST_CASE("factors: between two batches they lie on a line, and beyond the last they stay") {
  solo_table t;
  t.add({"a", 2, from_us(100), 0.2, 0.1, 0.5, 0, 0, 1, 0, 0.75, {1.5, 0.5}});
  t.add({"a", 6, from_us(100), 0.2, 0.1, 0.5, 0, 0, 1, 0, 0.75, {2.5, 1}});
  t.add({"b", 4, from_us(100), 0.2, 0.1, 0.5});
  const auto of = [&](const char* model, std::uint32_t batch) {
    return t.rates(model, batch, from_us(100))->factors;
  };
  CHECK(of("a", 1) == corun_factors{1.5, 0.5});
  CHECK(of("a", 2) == corun_factors{1.5, 0.5});
  CHECK(of("a", 4).sensitivity == doctest::Approx(2));
  CHECK(of("a", 4).pressure == doctest::Approx(0.75));
  CHECK(of("a", 6) == corun_factors{2.5, 1});
  CHECK(of("a", 100) == corun_factors{2.5, 1});
  CHECK(of("b", 1) == corun_factors{});
  CHECK(of("b", 9) == corun_factors{});
  t.add({"c", 1, from_us(100), 0.2, 0.1, 0.5, 0, 0, 1, 0, 0.75, {8.5, 0.8}});
  t.add({"c", 4, from_us(100), 0.2, 0.1, 0.5, 0, 0, 1, 0, 0.75, {0.1, 10}});
  CHECK(of("c", 4) == corun_factors{0.1, 10}); // and not 0.0999...: 8.5 + (0.1 - 8.5) is that
}

TEST_CASE(
    "factors: means are slowed more by sensitivity, and by the pressure of their neighbours") {
  const interference_coefficients c = some_law();
  std::mt19937_64 random(7);
  const auto any = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  for (int i = 0; i < 5000; ++i) {
    mean_use own{any(0, 1), any(0, 1), any(0, 1), any(0, 0.5), any(0, 1), {}, {}};
    mean_use other{any(0, 1), any(0, 1), any(0, 1), any(0, 0.5), any(0, 1), {}, {}};
    const double usual = mean_slowdown(c, own, other.as_neighbour());
    own.factors.pressure = any(0.1, 10); // which it does not feel itself
    REQUIRE(mean_slowdown(c, own, other.as_neighbour()) == usual);
    own.factors.sensitivity = any(0.1, 10);
    other.factors.sensitivity = any(0.1, 10); // which its neighbours do not feel
    const double by_it = mean_slowdown(c, own, other.as_neighbour());
    REQUIRE(by_it == doctest::Approx(1 + own.factors.sensitivity * (usual - 1)));
    other.factors.pressure = any(0.1, 10);
    const double pressed = mean_slowdown(c, own, other.as_neighbour());
    REQUIRE(pressed >= 1);
    if (other.factors.pressure > 1)
      REQUIRE(pressed >= by_it * (1 - 1e-12));
    else
      REQUIRE(pressed <= by_it * (1 + 1e-12));
  }
  mean_use sum;
  sum.add(mean_use{0.25, 0.5, 0, 0.125, 0.75, {1, 2}, {}}.as_neighbour());
  sum.add(mean_use{0.25, 0.5, 0, 0.125, 0.75, {}, {}}.as_neighbour());
  CHECK(sum == mean_use{0.75, 1.5, 0, 0.375, 0.75, {}, {}});
}

TEST_CASE("factors: graphs on SMs of their own are slowed by them, as far as they are not 1") {
  kernel_chain a = streaming(20, 0.5), b = streaming(30, 0.4);
  const std::vector<double> usual = slowed(a, b);
  REQUIRE(usual[0] > 1.05);
  REQUIRE(usual[1] > 1.05);
  a.factors.sensitivity = 2;
  b.factors.sensitivity = 0.5;
  const std::vector<double> sensitive = slowed(a, b);
  CHECK(sensitive[0] == doctest::Approx(1 + 2 * (usual[0] - 1)));
  CHECK(sensitive[1] == doctest::Approx(1 + 0.5 * (usual[1] - 1)));
  a.factors = {1, 2};
  b.factors = {};
  const std::vector<double> pressed = slowed(a, b);
  CHECK(pressed[0] == doctest::Approx(usual[0]).epsilon(0.02)); // b is slower, so takes less
  CHECK(pressed[1] > usual[1] * 1.02);
  a.factors = {1, 0.2};
  CHECK(slowed(a, b)[1] < usual[1] * 0.99);
}

TEST_CASE("factors: pressure counts the starts and the traffic between kernels as well") {
  kernel_chain often = streaming(3, 0), rarely = streaming(500, 0);
  rarely.at_start = {0.5};
  const double by_starts = slowed(rarely, often)[0];
  REQUIRE(by_starts > 1.02);
  often.factors.pressure = 3;
  // While it is slowed it meets more starts, so the part of its time that they take is three times.
  const double taken = 3 * (1 - 1 / by_starts);
  CHECK(slowed(rarely, often)[0] == doctest::Approx(1 / (1 - taken)).epsilon(0.02));
  interference_coefficients gaps = some_law();
  gaps.contention.l2_latency = gaps.contention.dram_latency = 0;
  gaps.replay = {0.6, 0};
  kernel_chain brief = streaming(3, 0), traffic = streaming(500, 0.3);
  const auto by_gaps = [&] {
    return beside({&brief, &traffic}, gaps.contention, gaps.replay, {4000, 4}, false)[0];
  };
  const double usual = by_gaps();
  REQUIRE(usual > 1.02);
  traffic.factors.pressure = 2;
  CHECK(by_gaps() == doctest::Approx(1 + 2 * (usual - 1)).epsilon(0.02));
}

TEST_CASE("factors: pressure counts the squares of the traffic, and no throughput") {
  kernel_chain a = streaming(20, 0.3), b = streaming(20, 0.3);
  contention_law latency = no_contention();
  latency.l2_latency = 0.3;
  const auto by = [&](const contention_law& law) {
    return beside({&a, &b}, law, only_placing, {4000, 4}, false)[0];
  };
  const double usual = by(latency);
  REQUIRE(usual > 1.01);
  const double by_throughput = by(no_contention());
  b.factors.pressure = 3;
  CHECK(by(latency) == doctest::Approx(1 + 3 * (usual - 1)).epsilon(0.02));
  CHECK(by(no_contention()) == by_throughput);
}

TEST_CASE("factors: graphs on the same SMs have none") {
  kernel_chain a = streaming(20, 0.5), b = streaming(30, 0.4);
  const std::vector<double> usual = slowed(a, b, true);
  a.factors = {3, 0.5};
  b.factors = {0.5, 3};
  CHECK(slowed(a, b, true) == usual);
}

TEST_CASE("factors: three graphs, two of which share SMs") {
  const interference_coefficients c = some_law();
  kernel_chain a = streaming(20, 0.5), b = streaming(30, 0.4), alone = streaming(25, 0.3);
  const auto run = [&] {
    const std::vector<corunner> graphs{{&a, 0}, {&b, 0}, {&alone, 1}};
    return corun_slowdowns(graphs, c.contention, c.replay, {4000, 4});
  };
  const std::vector<double> usual = run();
  a.factors.sensitivity = b.factors.sensitivity = 4;
  CHECK(run() == usual); // both have a neighbour on their SMs
  a.factors = b.factors = {};
  alone.factors.sensitivity = 4;
  CHECK(run()[2] == doctest::Approx(1 + 4 * (usual[2] - 1)));
  alone.factors = {};
  a.factors.pressure = 4;
  CHECK(run()[2] > usual[2] * 1.01);
}

TEST_CASE("factors: chains have those of their metrics") {
  solo_metrics m{"a", 1, from_us(100), 0.2, 0.1, 0.5};
  m.factors = {1.5, 0.5};
  CHECK(stand_in_chain(m, sm_count{132}).factors == m.factors);
}

} // namespace gsched::testing
