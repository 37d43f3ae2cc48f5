// SPDX-License-Identifier: Apache-2.0
#include "interference/chains.hpp"

#include <gsched/core/time.hpp>
#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/l2_loss.hpp>
#include <gsched/interference/mean_slowdown.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/interference/stand_in_chain.hpp>

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace gsched::testing {
namespace {

/// One kernel that takes so much of L2 and DRAM.
kernel_chain one_kernel(double use) {
  chain_kernel k = kernel(50, 64, 8, 4);
  k.takes.of(resource::l2) = k.takes.of(resource::dram) = use;
  kernel_chain c = chain({k});
  c.gap_us = 0.5;
  return c;
}

std::vector<double> slow_downs(const kernel_chain& a, const kernel_chain& b, bool shared) {
  const interference_coefficients c;
  return beside({&a, &b}, c.contention, c.replay, {4000, 4}, shared);
}

} // namespace

TEST_CASE("l2_loss: neighbours push out all of it from a slow stream on, and never less by more") {
  const l2_loss lost{0.4};
  CHECK(lost.beside(0) == 0);
  CHECK(lost.beside(l2_loss::stream / 2) == doctest::Approx(0.2));
  CHECK(lost.beside(l2_loss::stream) == 0.4);
  CHECK(lost.beside(5) == 0.4);
  CHECK(l2_loss{}.beside(1) == 0);
  for (double dram = 0; dram < 0.2; dram += 0.001)
    REQUIRE(lost.beside(dram + 0.001) >= lost.beside(dram));
}

TEST_CASE("l2_loss: what was measured beside a stream, less what the law says") {
  CHECK(*l2_loss::of(1.3, 1.05).part == doctest::Approx(0.25));
  CHECK(*l2_loss::of(1.1, 1).part == doctest::Approx(0.1));
  CHECK(l2_loss::of(1.02, 1.05).part == 0); // slowed less than predicted
  CHECK(l2_loss::of(0.98, 1).part == 0);
  CHECK(l2_loss::of(100, 1).part == l2_loss::most);
}

TEST_CASE("l2_loss: between batches it is interpolated, beyond them constant") {
  solo_table t;
  t.add({"a", 2, from_us(100), 0.2, 0.1, 0.5, 0, 0, 1, 0, 0.75, {}, {0.1}});
  t.add({"a", 6, from_us(100), 0.2, 0.1, 0.5, 0, 0, 1, 0, 0.75, {}, {0.3}});
  const auto of = [&](std::uint32_t batch) {
    return t.rates("a", batch, from_us(100))->lost.part.value();
  };
  CHECK(of(1) == 0.1);
  CHECK(of(2) == doctest::Approx(0.1));
  CHECK(of(4) == doctest::Approx(0.2));
  CHECK(of(6) == doctest::Approx(0.3));
  CHECK(of(50) == 0.3);
  CHECK(l2_loss{8.5}.to({0.1}, 1) == l2_loss{0.1}); // and not 0.0999...
  CHECK(l2_loss{0.2}.to({}, 0.5) == l2_loss{0.1});
  CHECK(!l2_loss{}.to({}, 0.5).known());
}

TEST_CASE("l2_loss: the law of means adds it to the sensitivity's part") {
  const interference_coefficients c;
  std::mt19937_64 random(11);
  const auto any = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  for (int i = 0; i < 5000; ++i) {
    mean_use own{any(0, 1), any(0, 1), any(0, 1), any(0, 0.5), any(0, 1), {any(0.1, 10), 1}, {}};
    const mean_use other{any(0, 1), any(0, 0.1), any(0, 1), any(0, 0.5), any(0, 1), {}, {3}};
    const mean_use felt = other.as_neighbour();
    const double usual = mean_slowdown(c, own, felt);
    own.lost = {any(0, 2)};
    const double slow = mean_slowdown(c, own, felt);
    REQUIRE(slow == doctest::Approx(usual + own.lost.beside(felt.dram)));
    mean_use more = felt;
    more.dram += any(0, 0.1);
    REQUIRE(mean_slowdown(c, own, more) >= slow);
  }
}

TEST_CASE(
    "l2_loss: graphs lose it beside one that streams, on SMs of their own and on shared ones") {
  kernel_chain a = one_kernel(0.02);
  const kernel_chain stream = one_kernel(0.3), quiet = one_kernel(0),
                     half = one_kernel(l2_loss::stream / 2);
  for (const bool shared : {false, true}) {
    a.lost = {0.0};
    const double by_stream = slow_downs(a, stream, shared)[0],
                 by_quiet = slow_downs(a, quiet, shared)[0],
                 by_half = slow_downs(a, half, shared)[0], other = slow_downs(a, stream, shared)[1];
    a.lost = {0.5};
    CHECK(slow_downs(a, stream, shared)[0] == doctest::Approx(by_stream + 0.5));
    CHECK(slow_downs(a, quiet, shared)[0] == by_quiet);
    // Its pauses between kernels make the mean a little less.
    CHECK(slow_downs(a, half, shared)[0] == doctest::Approx(by_half + 0.25).epsilon(0.01));
    CHECK(slow_downs(a, stream, shared)[1] == other);
  }
  kernel_chain pressing = half;
  pressing.factors.pressure = 2; // counts as twice the traffic on other SMs alone
  a.lost = {0.0};
  const double apart = slow_downs(a, pressing, false)[0],
               together = slow_downs(a, pressing, true)[0];
  a.lost = {0.5};
  CHECK(slow_downs(a, pressing, false)[0] == doctest::Approx(apart + 0.5).epsilon(0.01));
  CHECK(slow_downs(a, pressing, true)[0] == doctest::Approx(together + 0.25).epsilon(0.01));
}

TEST_CASE("l2_loss: chains have that of their solo metrics") {
  solo_metrics m{"a", 1, from_us(100), 0.2, 0.1, 0.5};
  m.lost = {0.25};
  CHECK(stand_in_chain(m, sm_count{132}).lost == l2_loss{0.25});
  CHECK(!stand_in_chain({"a", 1, from_us(100), 0.2, 0.1, 0.5}, sm_count{132}).lost.known());
}

TEST_CASE(
    "l2_loss: where it was not measured kernels with waits lose the usual part, others none") {
  kernel_chain a = one_kernel(0.02);
  const kernel_chain stream = one_kernel(0.3);
  for (const bool shared : {false, true})
    for (const bool waits : {false, true}) {
      a.kernels[0].takes.waits.executing = waits ? 1 : 0;
      a.lost = {0.0};
      const double none = slow_downs(a, stream, shared)[0];
      a.lost = {};
      CHECK(slow_downs(a, stream, shared)[0] == none + (waits ? l2_loss::usual : 0));
    }
}

TEST_CASE("l2_loss: an endless kernel has none") {
  kernel_chain stream = one_kernel(0.3), other = stream;
  stream.endless = true;
  const double none = slow_downs(stream, other, false)[0];
  stream.lost = {0.5};
  CHECK(slow_downs(stream, other, false)[0] == none);
}

} // namespace gsched::testing
