// SPDX-License-Identifier: Apache-2.0
#include "interference/refusal.hpp"

#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/placement.hpp>
#include <gsched/interference/stand_in_chain.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

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

/// Nothing but the placement of blocks matters.
contention_law no_contention() {
  contention_law law;
  law.l2_latency = law.dram_latency = law.warps = 0;
  return law;
}
replay_law only_placing(double tail = 0) { return {tail, 0, 0}; }

/// The part of a younger kernel that is placed while the older has `left` of its work left.
resident_kernel placed_beside(const chain_kernel& older, const chain_kernel& younger, double left,
                              double tail = 0, resident_kernel* first = nullptr) {
  std::array<resident_kernel, 2> both{};
  both[0].kernel = &older;
  both[0].left = left;
  both[1].kernel = &younger;
  place_blocks(both, sms, only_placing(tail));
  if (first != nullptr) *first = both[0];
  return both[1];
}

std::vector<double> beside(std::vector<const kernel_chain*> chains, const contention_law& law,
                           const replay_law& replays, const replay_window& window = {},
                           bool shared = true) {
  std::vector<corunner> graphs;
  for (const kernel_chain* c : chains)
    graphs.push_back({c, shared ? 0 : static_cast<std::uint32_t>(graphs.size())});
  return corun_slowdowns(graphs, law, replays, window);
}

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
  resident_kernel first;
  CHECK(placed_beside(wide, small, 1, 0, &first).placed == 0);
  CHECK(first.waiting);
  CHECK(first.until == doctest::Approx(0.25));
  CHECK(placed_beside(wide, small, 0.25).placed == 0); // full to the end: all end at once

  CHECK(placed_beside(wide, small, 0.2, 0.5, &first).placed == 0);
  CHECK(first.until == doctest::Approx(0.125)); // half of a block's time before the end
  CHECK(placed_beside(wide, small, 0.1, 0.5).placed > 0);
  CHECK(placed_beside(wide, small, 0.01, 0.5).placed == 1);
}

TEST_CASE("a younger kernel gets the space that resident blocks leave on each SM") {
  // Every second SM is half occupied, the others are empty.
  CHECK(placed_beside(kernel(100, sms / 2, 2), kernel(1, 2 * sms, 2), 1).placed ==
        doctest::Approx(0.75));
  // It fits into the free space, so it is not delayed.
  CHECK(placed_beside(kernel(100, sms / 2, 2), kernel(1, sms, 2), 1).placed == 1);
  // A block takes a whole SM: 90 of 100 have none to spare.
  CHECK(placed_beside(kernel(100, 90, 1), kernel(1, 4 * sms, 4), 1).placed == doctest::Approx(0.1));
  // One resource alone decides: no registers are left, whatever else is.
  chain_kernel greedy = kernel(100, sms, 1);
  greedy.shares = {0.1, 1, 0.1, 0.1};
  CHECK(placed_beside(greedy, kernel(1, sms, 8), 1).placed == 0);
  // A copy needs no SM and takes none.
  const chain_kernel copy = kernel(5, 0, 1);
  CHECK(placed_beside(greedy, copy, 1).placed == 1);
  CHECK(placed_beside(copy, greedy, 1).placed == 1);
}

TEST_CASE("kernels meet only on SMs that both need, and one SM counts like all in a single wave") {
  CHECK(shared_part(0.25, 0.5) == 0); // both fit on SMs of their own
  CHECK(shared_part(1, 0.5) == 0.5);
  CHECK(shared_part(0.5, 0.75) == doctest::Approx(0.5));
  CHECK(shared_part(0.5, 1) == 1);
  CHECK(shared_part(0, 1) == 0); // a copy
  CHECK(raised_by_slowest(0.25, 1) * 0.25 == doctest::Approx(1));
  CHECK(raised_by_slowest(0.25, 3) == 1); // free SMs do the rest
  CHECK(raised_by_slowest(0, 1) == 1);
  for (const double waves : {1.0, 1.5, 2.0, 4.0}) {
    double last = 0;
    for (double shared = 0; shared <= 1.2; shared += 0.01) {
      const double raised = shared * raised_by_slowest(shared, waves);
      CHECK(raised >= shared - 1e-12);
      CHECK(raised >= last - 1e-12); // never less for more neighbours
      CHECK(raised <= std::max(1.0, shared) + 1e-12);
      last = raised;
    }
  }
}

TEST_CASE("a third kernel gets what both older ones leave, and waits behind one that waits") {
  const chain_kernel half = kernel(100, sms, 2);
  const chain_kernel quarter = kernel(100, sms, 4);
  std::array<resident_kernel, 3> all{};
  all[0].kernel = &half;
  all[1].kernel = &quarter;
  all[2].kernel = &quarter;
  place_blocks(all, sms, only_placing());
  CHECK(all[1].placed == 1);
  CHECK(all[2].placed == 1); // exactly full
  const chain_kernel two = kernel(100, 2 * sms, 4);
  all[2].kernel = &two;
  place_blocks(all, sms, only_placing());
  CHECK(all[2].placed == doctest::Approx(0.5));
  all[1].kernel = &two; // it is placed completely, and nothing is left
  place_blocks(all, sms, only_placing());
  CHECK(all[1].placed == 1);
  CHECK(all[2].placed == 0);
  const chain_kernel waves =
      kernel(100, 8 * sms, 4); // it waits for space, so others wait behind it
  const chain_kernel tiny = kernel(1, 1, 32);
  all[1].kernel = &waves;
  all[2].kernel = &tiny;
  place_blocks(all, sms, only_placing());
  CHECK(all[1].placed == doctest::Approx(0.5));
  CHECK(all[2].placed == 0);
}

TEST_CASE("graphs that fit together are not slowed; those that fill the GPU alternate") {
  const contention_law law = no_contention();
  const kernel_chain narrow = chain({kernel(10, 10, 4), kernel(3, 20, 4)});
  for (const double slow : beside({&narrow, &narrow, &narrow}, law, only_placing()))
    CHECK(slow == doctest::Approx(1));

  const kernel_chain full = chain({kernel(10, 4 * sms, 4)});
  for (const double slow : beside({&full, &full}, law, only_placing()))
    CHECK(slow == doctest::Approx(2).epsilon(0.01));
  for (const double slow : beside({&full, &full, &full}, law, only_placing()))
    CHECK(slow == doctest::Approx(3).epsilon(0.01));
  for (const double slow : beside({&full, &full}, law, only_placing(), {}, false))
    CHECK(slow == doctest::Approx(1)); // on SMs of their own

  // A short kernel waits for each long one; a long one hardly waits for a short one.
  const kernel_chain longer = chain({kernel(90, 4 * sms, 4)});
  const auto waiting = beside({&full, &longer}, law, only_placing());
  CHECK(waiting[0] == doctest::Approx(10).epsilon(0.01));
  CHECK(waiting[1] == doctest::Approx(100.0 / 90).epsilon(0.01));
}

TEST_CASE("an endless kernel is there first and stays") {
  kernel_chain probe = chain({kernel(100, sms, 2)});
  probe.endless = true;
  const kernel_chain full = chain({kernel(10, 2 * sms, 2)});
  const auto slow = beside({&full, &probe}, no_contention(), only_placing());
  CHECK(slow[0] == doctest::Approx(2)); // it has one half of each SM
  CHECK(slow[1] == doctest::Approx(1));
  kernel_chain everything = chain({kernel(100, 2 * sms, 2)});
  everything.endless = true;
  replay_window window;
  window.us = 1000;
  window.events = 10000;
  CHECK(beside({&full, &everything}, no_contention(), only_placing(), window)[0] > 1);
}

TEST_CASE("each start of another graph's kernel costs its time") {
  const kernel_chain few = chain({kernel(100, 1, 4)}), many = chain({kernel(10, 1, 4)});
  const auto slow = beside({&few, &many}, no_contention(), {0, 0, 0.5});
  CHECK(slow[0] == doctest::Approx(1.05).epsilon(0.01));
  CHECK(slow[1] == doctest::Approx(1.005).epsilon(0.01));
}

TEST_CASE("slow-downs are deterministic, bounded, and do not depend on the order of the graphs") {
  std::mt19937_64 random(11);
  const auto any = [&](double least, double most) {
    return std::uniform_real_distribution(least, most)(random);
  };
  const auto any_chain = [&] {
    std::vector<chain_kernel> kernels;
    for (int i = 0; i < 30; ++i) {
      kernels.push_back(
          kernel(any(1, 20), std::ceil(any(1, 900)), std::ceil(any(0.1, 8)), std::ceil(any(0, 8))));
      kernels.back().takes.of(resource::l2) = any(0, 1);
      kernels.back().takes.of(resource::issue) = any(0, 1);
    }
    kernel_chain c = chain(std::move(kernels));
    c.gap_us = 0.3;
    return c;
  };
  replay_window window;
  window.us = 3000;
  for (int i = 0; i < 20; ++i) {
    const kernel_chain a = any_chain(), b = any_chain(), c = any_chain();
    const auto abc = beside({&a, &b, &c}, {}, {}, window);
    CHECK(abc == beside({&a, &b, &c}, {}, {}, window));
    const auto cab = beside({&c, &a, &b}, {}, {}, window);
    for (std::size_t k = 0; k < 3; ++k) {
      CHECK(abc[k] >= 1);
      CHECK(abc[k] < 100);
      CHECK(abc[k] == doctest::Approx(cab[(k + 1) % 3]).epsilon(0.15));
    }
    // Alone, nothing slows it.
    CHECK(beside({&a}, {}, {}, window)[0] < 1.2); // the longer gaps only
  }
}

TEST_CASE("a graph longer than the window is judged by its progress") {
  replay_window window;
  window.events = 1000;
  const kernel_chain quick = chain({kernel(1, 10, 4)}), slowest = chain({kernel(1e9, 10, 4)});
  const auto slow = beside({&quick, &slowest}, {}, {}, window);
  CHECK(slow[0] >= 1);
  CHECK(slow[1] >= 1);
}

TEST_CASE("a profile's chain has its kernels, gap and memory throughput") {
  const architecture_limits sm = limits_for(9, 0);
  solo_metrics m;
  m.l2 = 0.3;
  m.dram = 0.1;
  m.solo = from_us(21.72);
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
  for (const chain_kernel& k : c.kernels) l2 += k.takes.of(resource::l2) * k.us;
  CHECK(l2 == doctest::Approx(0.3 * 21.72)); // all of it is distributed
  CHECK(mean_demand(c).of(resource::l2) == doctest::Approx(0.3));
  profile nothing = one_kernel(1, 1, 1);
  nothing.operations.clear();
  CHECK(refusal([&] { static_cast<void>(chain_of(nothing, sm, m)); }) ==
        "m_b1: no operations, expected one");
}

TEST_CASE("a kernel's counters become its demand, on any part of the SMs") {
  const architecture_limits sm = limits_for(9, 0);
  profile p = one_kernel(200, 10, 20.72);
  kernel_counters c;
  c.us = 9.86;
  c.sm_active = 0.5;
  c.ipc = 2;
  c.shared_memory = 0.2;
  c.pipes.lsu = 0.1;
  c.l2 = 0.4;
  c.l2_bytes = 1000;
  c.dram_bytes = 250;
  p.operations[0].counters = c;
  const kernel_chain all = chain_of(p, sm, {});
  const demand& d = all.kernels[0].takes;
  CHECK(d.of(resource::issue) == doctest::Approx(0.5));
  CHECK(d.of(resource::shared_memory) == doctest::Approx(0.4)); // of an SM that it uses
  CHECK(d.conflict == doctest::Approx(4));
  CHECK(d.of(resource::l2) == doctest::Approx(0.4));
  CHECK(d.kept == doctest::Approx(0.75));
  CHECK(all.kernels[1].takes == demand{});
  // On half of the SMs in twice the time: each SM does the same, the device half.
  const kernel_chain half = chain_of(p, sm, {}, chain_place{sm_count{50}, from_us(40.44)});
  CHECK(half.replay_us() == doctest::Approx(40.44));
  CHECK(half.kernels[0].takes.of(resource::l2) == doctest::Approx(0.2).epsilon(0.02));
  CHECK(half.kernels[0].takes.of(resource::issue) == doctest::Approx(0.5).epsilon(0.02));
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
