// SPDX-License-Identifier: Apache-2.0
#include "interference/refusal.hpp"

#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/sharing_law.hpp>
#include <gsched/interference/stand_in_chain.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <random>

namespace gsched::testing {
namespace {

constexpr double sms = 100;

/// A kernel whose blocks each take the n-th part of every resource of an SM.
chain_kernel kernel(double us, double blocks, double nth, double warps = 0) {
  chain_kernel k;
  k.us = us;
  k.blocks = blocks;
  k.per_sm = nth;
  k.warps = warps;
  k.shares.fill(1 / nth);
  return k;
}

kernel_chain chain(std::vector<chain_kernel> kernels) {
  kernel_chain c;
  c.sms = sms;
  c.kernels = std::move(kernels);
  return c;
}

/// A law in which only the placement of blocks matters.
sharing_law only_placing(double tail = 0) { return sharing_law::of({0, 0, 0, 0, tail, 0}); }

profile one_kernel(std::uint32_t blocks, double us, double replay) {
  profile p;
  p.model = "m";
  p.sms = sm_count{100};
  p.graph_replay = from_us(replay);
  profile_operation op;
  op.work.launch.grid = {blocks, 1, 1};
  op.work.launch.block = {1024, 1, 1};
  op.work.launch.registers_per_thread = 16;
  op.work.expected = from_us(us);
  p.operations = {op, op};
  return p;
}

} // namespace

TEST_CASE("a kernel of several waves leaves no space before its last wave") {
  const chain_kernel wide = kernel(100, 8 * sms, 2); // four waves
  const chain_kernel small = kernel(1, sms, 8);
  const kernel_pair p(wide, small, sms, only_placing());
  CHECK(p.at(1).placed == 0);
  CHECK(p.at(1).until == doctest::Approx(0.25));
  CHECK(p.at(0.25).placed == 0); // all SMs are full to the end: without a tail all end at once
  CHECK(p.with(0).younger == 0);

  const kernel_pair ending(wide, small, sms, only_placing(0.5));
  CHECK(ending.at(0.2).placed == 0);
  CHECK(ending.at(0.2).until == doctest::Approx(0.125)); // half of a block's time before the end
  CHECK(ending.at(0.1).placed > 0);
  CHECK(ending.at(0.01).placed == 1);
}

TEST_CASE("a younger kernel gets the space that resident blocks leave on each SM") {
  const sharing_law law = only_placing();
  // Every second SM is half occupied, the others are empty.
  const kernel_pair half(kernel(100, sms / 2, 2), kernel(1, 2 * sms, 2), sms, law);
  CHECK(half.at(1).placed == doctest::Approx(0.75));
  // It fits into the free space, so it is not delayed.
  CHECK(kernel_pair(kernel(100, sms / 2, 2), kernel(1, sms, 2), sms, law).at(1).placed == 1);
  // A block takes a whole SM: 90 of 100 have none to spare.
  CHECK(kernel_pair(kernel(100, 90, 1), kernel(1, 4 * sms, 4), sms, law).at(1).placed ==
        doctest::Approx(0.1));
  // One resource alone decides: no registers are left, whatever else is.
  chain_kernel greedy = kernel(100, sms, 1);
  greedy.shares = {0.1, 1, 0.1, 0.1};
  CHECK(kernel_pair(greedy, kernel(1, sms, 8), sms, law).at(1).placed == 0);
  // A copy needs no SM and takes none.
  const chain_kernel copy = kernel(5, 0, 1);
  CHECK(kernel_pair(greedy, copy, sms, law).at(1).placed == 1);
  CHECK(kernel_pair(copy, greedy, sms, law).at(1).placed == 1);
}

TEST_CASE("shared warps, L2 and DRAM slow both kernels") {
  const double fill = sharing_law::warps_to_fill;
  chain_kernel a = kernel(10, sms, 4, 7);
  chain_kernel b = kernel(10, sms, 4, 7);
  CHECK(kernel_pair(a, b, sms, sharing_law::of({0, 1, 0, 0, 0, 0})).with(1).older ==
        doctest::Approx(1 / (1 + 7 / (7 + fill))));
  a.l2 = 0.5;
  b.dram = 0.5;
  const sharing_law memory = sharing_law::of({0.1, 0, 0.4, 0.8, 0, 0});
  CHECK(kernel_pair(a, b, sms, memory).with(1).older == doctest::Approx(1 / 1.5));
  CHECK(kernel_pair(a, b, sms, memory).with(1).younger == doctest::Approx(1 / 1.3));
  CHECK(kernel_pair(a, b, sms, memory).with(0.5).older == doctest::Approx(1 / 1.3));
  CHECK(kernel_pair(a, b, sms, memory).with(0.5).younger == doctest::Approx(0.5 / 1.3));
}

TEST_CASE("graphs that fit together are not slowed; two that fill the GPU alternate") {
  const kernel_chain narrow = chain({kernel(10, 10, 4), kernel(3, 20, 4)});
  const auto none = corun_slowdowns(narrow, narrow, only_placing());
  CHECK(none[0] == doctest::Approx(1));
  CHECK(none[1] == doctest::Approx(1));

  const kernel_chain full = chain({kernel(10, 4 * sms, 4)});
  const auto alternating = corun_slowdowns(full, full, only_placing());
  CHECK(alternating[0] == doctest::Approx(2).epsilon(0.01));
  CHECK(alternating[1] == doctest::Approx(2).epsilon(0.01));

  // A short kernel waits for each long one; a long one hardly waits for a short one.
  const kernel_chain longer = chain({kernel(90, 4 * sms, 4)});
  const auto waiting = corun_slowdowns(full, longer, only_placing());
  CHECK(waiting[0] == doctest::Approx(10).epsilon(0.01));
  CHECK(waiting[1] == doctest::Approx(100.0 / 90).epsilon(0.01));
}

TEST_CASE("slow-downs are symmetric in the arguments and deterministic") {
  std::mt19937_64 random(11);
  const auto any = [&](double least, double most) {
    return std::uniform_real_distribution(least, most)(random);
  };
  const auto any_chain = [&] {
    std::vector<chain_kernel> kernels;
    for (int i = 0; i < 30; ++i) {
      kernels.push_back(
          kernel(any(1, 20), std::ceil(any(1, 900)), std::ceil(any(0.1, 8)), std::ceil(any(0, 8))));
      kernels.back().l2 = any(0, 1);
    }
    kernel_chain c = chain(std::move(kernels));
    c.gap_us = 0.3;
    return c;
  };
  for (int i = 0; i < 50; ++i) {
    const kernel_chain a = any_chain(), b = any_chain();
    const auto ab = corun_slowdowns(a, b, {}), again = corun_slowdowns(a, b, {}),
               ba = corun_slowdowns(b, a, {});
    CHECK(ab == again);
    CHECK(ab[0] >= 1);
    CHECK(ab[1] >= 1);
    CHECK(ab[0] < 60);
    // The initial order has no lasting effect.
    CHECK(ab[0] == doctest::Approx(ba[1]).epsilon(0.1));
    CHECK(ab[1] == doctest::Approx(ba[0]).epsilon(0.1));
  }
}

TEST_CASE("a graph longer than the window is judged by its progress") {
  replay_window window;
  window.events = 1000;
  const auto slow =
      corun_slowdowns(chain({kernel(1, 10, 4)}), chain({kernel(1e9, 10, 4)}), {}, window);
  CHECK(slow[0] > 1);
  CHECK(slow[1] >= 1);
}

TEST_CASE("a profile's chain has its kernels, gap and memory throughput") {
  const architecture_limits sm = limits_for(9, 0);
  solo_metrics m;
  m.l2 = 0.3;
  m.dram = 0.1;
  const kernel_chain c = chain_of(one_kernel(150, 10, 21.72), sm, m);
  REQUIRE(c.kernels.size() == 2);
  CHECK(c.known);
  CHECK(c.kernels[0].blocks == 150);
  CHECK(c.kernels[0].per_sm == 2);
  CHECK(c.kernels[0].warps == 32);
  CHECK(c.kernels[0].shares[0] == doctest::Approx(0.5));
  CHECK(c.gap_us == doctest::Approx((21.72 - 2 * 9.86) / 2));
  CHECK(c.replay_us() == doctest::Approx(21.72));
  double l2 = 0;
  for (const chain_kernel& k : c.kernels) l2 += k.l2 * k.us;
  CHECK(l2 == doctest::Approx(0.3 * 21.72)); // all of it is distributed
  profile nothing = one_kernel(1, 1, 1);
  nothing.operations.clear();
  CHECK(refusal([&] { static_cast<void>(chain_of(nothing, sm, m)); }) ==
        "m_b1: no operations, expected one");
}

TEST_CASE("a stand-in chain has the graph's latency, and more kernels for more idle time") {
  solo_metrics m;
  m.solo = from_us(1000);
  m.active = 0.55;
  m.l2 = 0.2;
  const kernel_chain c = stand_in_chain(m, sm_count{132});
  CHECK(!c.known);
  CHECK(c.kernels.size() == 200);
  CHECK(c.replay_us() == doctest::Approx(1000));
  m.active = 0.9;
  CHECK(stand_in_chain(m, sm_count{132}).kernels.size() < 50);
  m.active = 1;
  CHECK(stand_in_chain(m, sm_count{132}).kernels.size() == 1);
  m.active = 0;
  m.solo = from_us(3.6e9);
  CHECK(stand_in_chain(m, sm_count{132}).kernels.size() <= 20000);
  m.solo = from_us(0.001);
  CHECK(stand_in_chain(m, sm_count{132}).replay_us() > 0);
}

} // namespace gsched::testing
