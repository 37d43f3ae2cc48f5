// SPDX-License-Identifier: Apache-2.0
#include "interference/chains.hpp"
#include "interference/refusal.hpp"

#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/stand_in_chain.hpp>
#include <gsched/interference/surroundings.hpp>

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
  p.operations[1].after = {0};
  return p;
}

constexpr replay_window slowest_replay{4000, 4, 4'000'000, 1};

/// What corun_slowdowns computes for two graphs without contention, one block at a time and without
/// a number that stands for several: the mean replay over that alone. Persistent kernels lose as
/// many SMs as others hold (common_work is 1).
std::vector<double> block_by_block(const kernel_chain& a, const kernel_chain& b, double until_us) {
  struct block {
    std::size_t graph, sm;
    double ends;
  };
  struct graph {
    const kernel_chain* chain;
    std::size_t at = 0;
    double starts = 0, unplaced = 0, resident = 0, arrived = -1, replays = 0, ended = 0;
    double queue = 0; ///< of a persistent kernel, in microseconds of a block
    [[nodiscard]] bool is_persistent() const { return chain->kernels[at].common_work > 0; }
  };
  std::array<graph, 2> graphs{graph{&a}, graph{&b}};
  std::vector<double> taken(static_cast<std::size_t>(sms), 0.0);
  std::vector<double> split(taken.size(), 0.0);
  std::vector<block> blocks;
  for (double now = 0; now < until_us;) {
    for (graph& g : graphs) {
      const chain_kernel& k = g.chain->kernels[g.at];
      if (g.arrived < 0 && g.starts <= now) {
        g.arrived = now;
        g.unplaced = k.blocks;
        g.queue = k.blocks * k.us;
      }
    }
    const bool second =
        graphs[1].arrived >= 0 && (graphs[0].arrived < 0 || graphs[1].arrived < graphs[0].arrived);
    for (const std::size_t i : {std::size_t{second}, std::size_t{!second}}) {
      graph& g = graphs[i];
      const chain_kernel& k = g.chain->kernels[g.at];
      if (g.arrived < 0) continue;
      const double waves = std::ceil(k.blocks / (sms * k.per_sm));
      while (g.unplaced > 0) {
        constexpr double tiny = 1e-9;
        auto sm = taken.end();
        for (auto t = taken.begin(); t != taken.end(); ++t) {
          const bool empty = *t < tiny;
          if (!empty && split[static_cast<std::size_t>(t - taken.begin())] < k.least_split)
            continue;
          if (*t + 1 / k.per_sm > 1 + tiny) continue;
          if (sm == taken.end() || *t < *sm) sm = t;
        }
        if (sm == taken.end()) break;
        if (*sm < tiny) split[static_cast<std::size_t>(sm - taken.begin())] = k.set_split;
        *sm += 1 / k.per_sm;
        const double ends = g.is_persistent() ? until_us : now + k.us / waves;
        blocks.push_back({i, static_cast<std::size_t>(sm - taken.begin()), ends});
        --g.unplaced;
        ++g.resident;
      }
      if (g.unplaced > 0) break;
    }
    double next = until_us;
    for (const block& x : blocks) next = std::min(next, x.ends);
    for (const graph& g : graphs)
      if (g.arrived < 0) next = std::min(next, g.starts);
    for (const graph& g : graphs)
      if (g.arrived >= 0 && g.is_persistent() && g.resident > 0)
        next = std::min(next, now + g.queue / g.resident);
    for (std::size_t i = 0; i < 2; ++i) {
      graph& g = graphs[i];
      if (g.arrived < 0 || !g.is_persistent() || !(g.resident > 0)) continue;
      g.queue -= (next - now) * g.resident;
      if (g.queue > 1e-9) continue;
      g.unplaced = 0;
      for (block& x : blocks)
        if (x.graph == i) x.ends = next;
    }
    now = next;
    for (std::size_t x = blocks.size(); x-- > 0;) {
      if (blocks[x].ends > now + 1e-9) continue;
      graph& g = graphs[blocks[x].graph];
      taken[blocks[x].sm] -= 1 / g.chain->kernels[g.at].per_sm;
      --g.resident;
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(x));
    }
    for (graph& g : graphs) {
      if (g.arrived < 0 || g.unplaced > 0 || g.resident > 0) continue;
      g.arrived = -1;
      g.starts = now + g.chain->gap_us;
      if (++g.at < g.chain->kernels.size()) continue;
      g.at = 0;
      ++g.replays;
      g.ended = now;
    }
  }
  std::vector<double> slow;
  for (const graph& g : graphs) slow.push_back(g.ended / g.replays / g.chain->replay_us());
  return slow;
}

} // namespace

TEST_CASE("a kernel of several waves leaves no room before its last wave") {
  const kernel_chain small = chain({kernel(1, sms, 8)});
  const auto longest = [&](const kernel_chain& other) {
    return beside({&small, &other}, no_contention(), only_placing, slowest_replay)[0];
  };
  CHECK(longest(chain({kernel(100, 8 * sms, 2)})) > 70); // four waves: it waits for three
  CHECK(longest(chain({kernel(100, 3 * sms, 2)})) > 40); // two: it waits for one
  CHECK(longest(chain({kernel(100, 3 * sms, 2)})) < 60);
  CHECK(longest(chain({kernel(100, sms, 2)})) < 1.1); // one, which leaves half of each SM
}

TEST_CASE("a younger kernel gets the room that resident blocks leave on each SM") {
  const kernel_chain two = chain({kernel(10, 2 * sms, 2)}), one = chain({kernel(10, sms, 2)});
  const kernel_chain half = holding(sms / 2, 2); // every second SM is half occupied
  // Three quarters of its blocks, then the others.
  CHECK(beside({&two, &half}, no_contention(), only_placing)[0] ==
        doctest::Approx(2).epsilon(0.03));
  CHECK(beside({&one, &half}, no_contention(), only_placing)[0] ==
        doctest::Approx(1).epsilon(0.03));
  // A block takes a whole SM: of 16, two are left, which hold eight blocks of 64.
  const kernel_chain most = holding(14, 1), four = chain({kernel(10, 4 * sms, 4)});
  CHECK(beside({&four, &most}, no_contention(), only_placing)[0] ==
        doctest::Approx(8).epsilon(0.05));
  // One resource alone decides: no registers are left, whatever else is.
  kernel_chain greedy = holding(sms, 1);
  greedy.kernels[0].shares = {0.1, 1, 0.1, 0.1};
  replay_window brief;
  brief.us = 1000;
  brief.events = 10000;
  CHECK(beside({&one, &greedy}, no_contention(), only_placing, brief)[0] > 50);
  // A copy needs no SM and takes none.
  const kernel_chain copy = chain({kernel(5, 0, 1)});
  CHECK(beside({&copy, &greedy}, no_contention(), only_placing)[0] == doctest::Approx(1));
  CHECK(beside({&one, &copy}, no_contention(), only_placing)[0] ==
        doctest::Approx(1).epsilon(0.03));
}

TEST_CASE("a third kernel waits behind one that waits") {
  const kernel_chain half = holding(sms, 2), tiny = chain({kernel(1, 1, 32)});
  const kernel_chain fits = chain({kernel(80, 2 * sms, 4)}); // the rest of each SM, once
  const kernel_chain waves = chain({kernel(80, 7 * sms, 4)});
  kernel_chain less = fits;
  less.kernels[0].blocks = sms;
  const auto longest = [&](const kernel_chain& other) {
    return beside({&tiny, &other, &half}, no_contention(), only_placing, slowest_replay)[0];
  };
  CHECK(longest(less) < 1.1);
  CHECK(longest(fits) > 60);   // all SMs are full
  CHECK(longest(waves) > 100); // for three waves, of the blocks that the probe leaves room for
}

TEST_CASE("a kernel waits behind an older one that waits for room, even where it would fit") {
  const kernel_chain tiny = chain({kernel(1, 1, 32)});
  chain_kernel thirds = kernel(100, 12 * sms, 3); // four waves, beside which a tenth is free
  thirds.shares.fill(0.3);
  const kernel_chain waves = chain({thirds});
  CHECK(beside({&tiny, &waves}, no_contention(), only_placing, slowest_replay)[0] > 70);
  thirds.blocks = 3 * sms;
  const kernel_chain once = chain({thirds});
  CHECK(beside({&tiny, &once}, no_contention(), only_placing, slowest_replay)[0] < 1.1);
}

TEST_CASE("kernels wait for older ones of their own partition alone") {
  const kernel_chain tiny = chain({kernel(1, 1, 32)});
  const kernel_chain full = chain({kernel(100, 8 * sms, 2)}), half = chain({kernel(100, sms, 2)});
  const std::array<corunner, 4> two_and_two{corunner{&tiny, 0}, corunner{&full, 0},
                                            corunner{&tiny, 1}, corunner{&half, 1}};
  const std::vector<double> slow =
      corun_slowdowns(two_and_two, no_contention(), only_placing, slowest_replay);
  CHECK(slow[0] > 70);
  CHECK(slow[2] < 1.1);
}

TEST_CASE("a block goes to the emptiest SM") {
  const kernel_chain half = holding(sms / 2, 2);
  contention_law law = no_contention();
  law.warps = 1;
  kernel_chain probe = half;
  probe.kernels[0].warps = 8;
  const auto touching_memory = [](kernel_chain c) {
    c.kernels[0].takes.of(resource::l2) = 0.01;
    return c;
  };
  probe = touching_memory(probe);
  const kernel_chain free_half = touching_memory(chain({kernel(10, sms / 2, 2, 8)}));
  CHECK(beside({&free_half, &probe}, law, only_placing)[0] == doctest::Approx(1).epsilon(0.02));
  const kernel_chain everywhere = touching_memory(chain({kernel(10, sms, 2, 8)}));
  CHECK(beside({&everywhere, &probe}, law, only_placing)[0] > 1.3);
}

TEST_CASE("more blocks on an SM than a kernel has alone do not make others wait for it") {
  contention_law law; // with the age of kernels
  law.warps = 0;
  kernel_chain probe = chain({kernel(100, sms / 2, 1)}); // leaves half of the SMs
  probe.endless = true;
  kernel_chain wide = chain({kernel(200, sms, 4, 4)});
  const kernel_chain tiny = [] {
    kernel_chain c = chain({kernel(1, sms / 2, 8, 2)});
    c.kernels[0].takes.of(resource::issue) = 0.3;
    return c;
  }();
  const auto beside_one_that_takes = [&](double issue) {
    wide.kernels[0].takes.of(resource::issue) = issue;
    return beside({&tiny, &wide, &probe}, law, only_placing, slowest_replay)[0];
  };
  CHECK(beside_one_that_takes(0.7) < 2); // the rest is a fair share
  CHECK(beside_one_that_takes(1) > 20);  // alone it leaves nothing
}

TEST_CASE("a kernel that waits for DRAM loses little by fewer blocks") {
  const contention_law law;
  const detail::region all{sms, 0, static_cast<std::size_t>(sms), true};
  chain_kernel compute = kernel(100, 4 * sms, 4, 8), memory = compute;
  compute.takes.of(resource::issue) = memory.takes.of(resource::issue) = 0.3;
  memory.takes.of(resource::dram) = law.dram;
  const auto half = [&](const chain_kernel& k) {
    const detail::block_shape s(k, all, law);
    CHECK(s.block_time(4, 4 * sms) == doctest::Approx(1));
    return 2 * s.block_time(4, 2 * sms); // of the kernel, on half of the SMs
  };
  CHECK(half(compute) == doctest::Approx(2));
  CHECK(half(memory) < 1.1);
}

TEST_CASE("counters say how early the SMs are done with a kernel") {
  kernel_counters c;
  CHECK(ends_early(c, 1) == 0); // not known
  c.us = 100;
  c.sm_active = 0.9;
  CHECK(ends_early(c, 1) == doctest::Approx(0.1 - 0.0085));
  c.us = 10;
  CHECK(ends_early(c, 1) == doctest::Approx(0.1 - 0.085));
  c.us = 5;
  CHECK(ends_early(c, 1) == 0); // as long as blocks take to start
  c.us = 1e6;
  c.sm_active = 0.45; // half of the SMs have blocks
  CHECK(ends_early(c, 0.5) == doctest::Approx(0.1).epsilon(1e-3));
  c.sm_active = 0.01;
  CHECK(ends_early(c, 1) == 0.45); // at most
  profile p;
  p.model = "model";
  p.sms = sm_count{132};
  p.operations.resize(1);
  operation& work = p.operations[0].work;
  work.launch.grid = {66, 1, 1};
  work.launch.block = {128, 1, 1};
  work.expected = from_us(100);
  CHECK(chain_of(p, limits_for(9, 0), {}).kernels[0].early == 0);
  p.operations[0].counters = c;
  p.operations[0].counters->us = 100;
  p.operations[0].counters->sm_active = 0.4;
  CHECK(chain_of(p, limits_for(9, 0), {}).kernels[0].early == doctest::Approx(0.2 - 0.0085));
}

TEST_CASE("blocks of one wave end early by what counters say and fewer blocks on an SM do not") {
  const detail::region all{sms, 0, static_cast<std::size_t>(sms), true};
  const auto apart = [&](double blocks, double early) {
    chain_kernel k = kernel(100, blocks, 4, 8);
    k.early = early;
    return detail::block_shape(k, all, {}).apart;
  };
  CHECK(apart(sms, 0.3) == doctest::Approx(0.6));
  CHECK(apart(4 * sms, 0.3) == doctest::Approx(0.6));
  CHECK(apart(2.5 * sms, 0.3) < 0.5); // half of the SMs have two blocks, half have three
  CHECK(apart(2.5 * sms, 0.3) > 0.2);
  CHECK(apart(sms, 0) == apart(2.5 * sms, 0));
  CHECK(apart(5 * sms, 0.3) == apart(5 * sms, 0)); // two waves
}

TEST_CASE("a kernel alone takes its time, however early some of its blocks end") {
  for (const double dram : {0.0, 0.9}) {
    chain_kernel k = kernel(100, 4 * sms, 4, 8);
    k.takes.of(resource::issue) = 0.3;
    k.takes.of(resource::dram) = dram;
    const kernel_chain copy = chain({kernel(100, 0, 1)}), own = chain({k});
    const auto time = [&](double early) {
      kernel_chain c = own;
      c.kernels[0].early = early;
      return beside({&c, &copy}, {}, only_placing)[0];
    };
    CHECK(time(0) == doctest::Approx(1).epsilon(0.02));
    CHECK(time(0.4) == doctest::Approx(1).epsilon(0.04));
  }
}

TEST_CASE("a kernel of few blocks is slowed all of its time, however early some of them end") {
  kernel_chain clocks = chain({kernel(100, sms, 2)}); // it lowers the clock by 9%, and no more
  clocks.endless = clocks.kernels[0].takes.low_clock = true;
  for (const double blocks : {1.0, 2.0, 3.0, sms}) {
    chain_kernel k = kernel(100, blocks, 4, 8);
    k.early = 0.4;
    const kernel_chain few = chain({k, k, k});
    CHECK(beside({&few, &clocks}, {}, only_placing)[0] == doctest::Approx(1.09).epsilon(0.005));
  }
}

TEST_CASE("another graph runs where blocks have ended early") {
  const kernel_chain small = chain({kernel(2, sms / 4, 1)}); // of whole SMs
  const auto slowdown = [&](double early) {
    kernel_chain long_one = chain({kernel(100, sms, 1)});
    long_one.kernels[0].early = early;
    return beside({&small, &long_one}, no_contention(), only_placing)[0];
  };
  CHECK(slowdown(0.4) < slowdown(0) / 2);
}

TEST_CASE("a kernel's buffers are the shared memory of the blocks that are on its SMs") {
  profile p = one_kernel(66, 10, 30);
  operation& work = p.operations[0].work;
  work.launch.block = {128, 1, 1};
  work.launch.static_shared_bytes = 20000;
  work.launch.dynamic_shared_bytes = 30000;
  const auto buffer_us = [&] {
    return chain_of(p, limits_for(9, 0), {}).kernels[0].takes.buffer_us;
  };
  CHECK(buffer_us() == 0); // without counters
  kernel_counters& c = p.operations[0].counters.emplace();
  c.us = 10;
  c.warps_active = 4.0 / 64; // a block on an SM
  c.l2_bytes = 66 * 50000;
  CHECK(buffer_us() == doctest::Approx(10));
  c.warps_active *= 2;
  CHECK(buffer_us() == doctest::Approx(20));
  work.launch.static_shared_bytes = work.launch.dynamic_shared_bytes = 500;
  CHECK(buffer_us() == 0); // 2,000 bytes on an SM
}

TEST_CASE("a kernel of tiny blocks holds no more of them than the dispatcher can place") {
  profile p = one_kernel(16384, 12, 30);
  for (profile_operation& o : p.operations) {
    o.work.launch.block = {64, 1, 1};
    o.counters.emplace();
    o.counters->us = 12;
    o.counters->warps_active = 0.25; // 8 of 32 blocks
  }
  const auto resident = [&] { return chain_of(p, limits_for(9, 0), {}).kernels[0].resident; };
  CHECK(resident() == 8);
  const detail::region all{sms, 0, static_cast<std::size_t>(sms), true};
  chain_kernel k = kernel(12, 64 * sms, 32, 2);
  const double by_waves = detail::block_shape(k, all, {}).block_us;
  k.resident = 8;
  CHECK(detail::block_shape(k, all, {}).block_us < by_waves / 2);
  p.operations[0].counters->warps_active = 0.8; // nearly all that fit
  CHECK(resident() == 0);
  p.operations[0].counters->warps_active = 0.25;
  p.operations[0].work.expected = from_us(60); // 273 blocks a microsecond
  CHECK(resident() == 0);
}

TEST_CASE("a kernel waits for its code on an SM that has run another graph's") {
  const kernel_chain small = chain({kernel(2, 1, 8)});
  const kernel_chain others = chain({kernel(2, sms, 8)});
  const auto slowdown = [&](const kernel_chain& beside_it) {
    return beside({&small, &beside_it}, no_contention(), replay_law{0, 0.5})[0];
  };
  kernel_chain endless = others;
  endless.endless = true; // it starts no kernels
  CHECK(slowdown(endless) < 1.05);
  const replay_law law{0, 0.5};
  CHECK(law.code_us(0) == doctest::Approx(0.2));
  CHECK(law.code_us(1) == doctest::Approx(1.8));
  CHECK(law.code_us(9) == law.code_us(1));
  CHECK(replay_law{0, 0}.code_us(1) == 0);
  CHECK(slowdown(others) > slowdown(endless) + 0.05);
  // Two equal graphs in step lose nothing else.
  CHECK(beside({&others, &others}, no_contention(), law)[0] > 1.1);
}

TEST_CASE("blocks slow others of their kernel by less, the less of an SM they use") {
  const detail::region all{sms, 0, static_cast<std::size_t>(sms), true};
  const auto two_on_each = [&](double issue) {
    chain_kernel k = kernel(100, sms, 4, 8);
    k.takes.of(resource::issue) = issue;
    return detail::block_shape(k, all, {}).block_time(2, 2 * sms);
  };
  CHECK(two_on_each(1) == doctest::Approx(2).epsilon(0.01));
  CHECK(two_on_each(0.8) == doctest::Approx(23.0 / 15));   // 7 unused warps beside 8 and 16
  CHECK(two_on_each(0.9) == doctest::Approx(19.5 / 11.5)); // half as many
  CHECK(two_on_each(0.4) == doctest::Approx(28.0 / 20));   // 12
  CHECK(two_on_each(0.1) == doctest::Approx(32.0 / 24));   // 16 at most
}

TEST_CASE(
    "a kernel that uses all of an SM, of which no warps are known, is slowed by others alone") {
  chain_kernel k = kernel(100, sms, 4); // 0 warps
  k.takes.of(resource::issue) = 1;
  const kernel_chain full = chain({k}), idle = chain({kernel(100, 1, 4)});
  CHECK(beside({&full, &idle}, {}, only_placing)[0] == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("replays agree with a model that places one block at a time") {
  std::mt19937_64 random(5);
  const auto any = [&](int least, int most) {
    return static_cast<double>(std::uniform_int_distribution(least, most)(random));
  };
  bool splits = false, persistent = false;
  const auto any_chain = [&] {
    std::vector<chain_kernel> kernels;
    for (int i = 0; i < 12; ++i) {
      kernels.push_back(kernel(any(2, 30), any(1, 70), std::pow(2, any(0, 3))));
      if (persistent && any(0, 1) > 0) {
        kernels.back() = kernel(any(2, 30), any(1, static_cast<int>(sms)), 1);
        kernels.back().common_work = 1;
      }
      if (!splits) continue;
      kernels.back().least_split = any(0, 4) / 4;
      kernels.back().set_split = std::min(1.0, kernels.back().least_split + any(0, 1) / 4);
    }
    kernel_chain c = chain(std::move(kernels));
    c.gap_us = 0.5;
    return c;
  };
  double off = 0;
  constexpr int times = 30;
  for (int i = 0; i < times; ++i) {
    splits = i % 2 == 1;
    persistent = i % 4 > 1;
    const kernel_chain a = any_chain(), b = any_chain();
    const std::vector<double> slow = beside({&a, &b}, no_contention(), only_placing, {8000, 4});
    const std::vector<double> model = block_by_block(a, b, 8000);
    for (std::size_t k = 0; k < 2; ++k) {
      CHECK(slow[k] == doctest::Approx(model[k]).epsilon(0.3));
      off += std::abs(slow[k] / model[k] - 1) / (2 * times);
    }
  }
  CHECK(off < 0.06);
}

TEST_CASE("a kernel that needs more shared memory than an SM has set aside waits for an empty SM") {
  kernel_chain longer = chain({kernel(100, sms, 2)}), brief = chain({kernel(1, sms, 4)});
  longer.gap_us = 7;
  brief.gap_us = 3; // so that one starts on SMs without blocks, or beside the other
  const auto slowest = [&](double set, double least) {
    longer.kernels[0].set_split = set;
    brief.kernels[0].least_split = brief.kernels[0].set_split = least;
    return beside({&longer, &brief}, no_contention(), only_placing, slowest_replay)[1];
  };
  CHECK(slowest(0.25, 0.5) > 20);
  CHECK(slowest(0.5, 0.5) < 1.1);
  CHECK(slowest(0.5, 0.25) < 1.1); // a larger one will do
  // SMs without blocks take any split, beside SMs that have another.
  longer.kernels[0].blocks = sms / 2;
  brief.kernels[0].blocks = sms / 2;
  CHECK(slowest(0.25, 0.5) < 1.1);
  brief.kernels[0].blocks = 2 * sms; // all that four fit on each of
  CHECK(slowest(0.25, 0.5) < 1.1);
  brief.kernels[0].blocks = 4 * sms;
  CHECK(slowest(0.25, 0.5) == doctest::Approx(1.25).epsilon(0.02)); // twice, on half of the SMs
  // A probe asks for the largest one.
  const kernel_chain probe = holding(sms, 2);
  brief.kernels[0].blocks = sms;
  brief.kernels[0].least_split = 1;
  CHECK(beside({&brief, &probe}, no_contention(), only_placing)[0] < 1.1);
}

TEST_CASE("few SMs stand for many") {
  const auto slow_on = [](double n) {
    std::vector<kernel_chain> both;
    for (const double f : {1.0, 2.0}) {
      both.push_back(chain(
          {kernel(10 * f, 1.5 * n, 2, 4), kernel(3, n / 4, 4, 8), kernel(20 / f, 5 * n, 2, 4)}));
      both.back().sms = n;
      both.back().gap_us = 0.5;
    }
    return beside({&both[0], &both[1]}, {}, {});
  };
  const std::vector<double> few = slow_on(16), many = slow_on(128);
  for (std::size_t i = 0; i < 2; ++i) CHECK(many[i] == doctest::Approx(few[i]).epsilon(0.1));
}

TEST_CASE("graphs that fit together are not slowed; those that fill the GPU alternate") {
  const contention_law law = no_contention();
  const kernel_chain narrow = chain({kernel(10, 10, 4), kernel(3, 20, 4)});
  for (const double slow : beside({&narrow, &narrow, &narrow}, law, only_placing))
    CHECK(slow == doctest::Approx(1).epsilon(0.02));

  const kernel_chain full = chain({kernel(10, 4 * sms, 4)});
  for (const double slow : beside({&full, &full}, law, only_placing))
    CHECK(slow == doctest::Approx(2).epsilon(0.01));
  for (const double slow : beside({&full, &full, &full}, law, only_placing))
    CHECK(slow == doctest::Approx(3).epsilon(0.01));
  for (const double slow : beside({&full, &full}, law, only_placing, {}, false))
    CHECK(slow == doctest::Approx(1)); // on SMs of their own

  // A short kernel waits for each long one; a long one hardly waits for a short one.
  const kernel_chain longer = chain({kernel(90, 4 * sms, 4)});
  const auto waiting = beside({&full, &longer}, law, only_placing);
  CHECK(waiting[0] == doctest::Approx(10).epsilon(0.01));
  CHECK(waiting[1] == doctest::Approx(100.0 / 90).epsilon(0.01));
}

TEST_CASE("an endless kernel is there first and stays") {
  kernel_chain probe = chain({kernel(100, sms, 2)});
  probe.endless = true;
  const kernel_chain full = chain({kernel(10, 2 * sms, 2)});
  const auto slow = beside({&full, &probe}, no_contention(), only_placing);
  CHECK(slow[0] == doctest::Approx(2).epsilon(0.02)); // it has one half of each SM
  CHECK(slow[1] == doctest::Approx(1));
  kernel_chain everything = chain({kernel(100, 2 * sms, 2)});
  everything.endless = true;
  replay_window window;
  window.us = 1000;
  window.events = 10000;
  CHECK(beside({&full, &everything}, no_contention(), only_placing, window)[0] > 1);
}

TEST_CASE("one graph more makes it no better beside an endless kernel") {
  kernel_chain one = chain({kernel(100, sms, 8)}), probe = chain({kernel(1000, sms, 8)}),
               tiny = chain({kernel(100, sms, 8)});
  probe.endless = true;
  probe.kernels[0].takes.waits.executing = 0.9;
  demand& mine = one.kernels[0].takes;
  mine.of(resource::l2) = 0.05;
  mine.waits = {.memory = 0.3, .executing = 0.5};
  mine.fixed_stall = 0.5;
  for (const resource r : {resource::issue, resource::alu, resource::xu, resource::tensor})
    for (const double use : {0.05, 0.3, 0.7})
      for (const double others : {0.5, 0.95}) {
        CAPTURE(resource_names[index(r)]);
        CAPTURE(use);
        CAPTURE(others);
        mine.of(r) = use;
        probe.kernels[0].takes.of(r) = others;
        CHECK(beside({&one, &probe, &tiny}, {}, only_placing)[0] >
              0.999 * beside({&one, &probe}, {}, only_placing)[0]);
        mine.of(r) = probe.kernels[0].takes.of(r) = 0;
      }
}

TEST_CASE("beside an endless kernel what keeps an SM busy is no fixed time of a block") {
  detail::region all{sms, 0, static_cast<std::size_t>(sms), true};
  chain_kernel k = kernel(10, 8 * sms, 2, 8);
  k.fixed = 0.9;
  const auto half = [&](double issue, bool endless) { // the time of a block on an SM by itself
    k.takes.of(resource::issue) = issue;
    all.endless = endless;
    return detail::block_shape(k, all, {}).stretch(8);
  };
  CHECK(half(0.8, false) > 0.95);
  CHECK(half(0.8, true) < 0.75);
  CHECK(half(1, true) == doctest::Approx(0.5).epsilon(0.02));
  CHECK(half(0.01, true) == doctest::Approx(half(0.01, false)).epsilon(0.01));
}

TEST_CASE("the SMs that stand for all hold an endless kernel's blocks as whole ones") {
  const auto stand_for = [](double endless_blocks, double of = 132) {
    detail::region r;
    r.sms = of;
    r.shared = true;
    r.stand_in(endless_blocks);
    return r.count;
  };
  CHECK(stand_for(0) == 33);
  CHECK(stand_for(0, 66) == 17);
  CHECK(stand_for(16) == 33);
  CHECK(stand_for(66) == 44); // 22 of them with a block
  CHECK(stand_for(33) == 44);
  CHECK(stand_for(22) == 66);
  CHECK(stand_for(17) == 33); // no number of SMs together divides it
}

TEST_CASE("the traffic of an endless kernel is steady") {
  kernel_chain reads = chain({kernel(100, 1, 4)}), copies = chain({kernel(1000, 1, 4)});
  reads.kernels[0].takes.of(resource::l2) = 0.01;
  copies.kernels[0].takes.of(resource::dram) = 0.5;
  const auto slow = [&](bool endless) {
    copies.endless = endless;
    return beside({&reads, &copies}, {}, only_placing, {4000, 4}, false)[0] - 1;
  };
  CHECK(slow(false) > 0.1);
  CHECK(slow(true) == doctest::Approx(surroundings::steady * slow(false)).epsilon(0.03));
}

TEST_CASE("an endless kernel's accesses to shared memory leave L1 to others") {
  kernel_chain loads = chain({kernel(100, sms, 4)}), banks = chain({kernel(1000, sms, 4)});
  loads.kernels[0].takes.of(resource::l1) = 0.5;
  demand& d = banks.kernels[0].takes;
  d.of(resource::l1) = 0.9; // with those to shared memory, as the counter has it
  const auto slow = [&](bool endless, double shared) {
    banks.endless = endless;
    d.of(resource::shared_memory) = shared;
    return beside({&loads, &banks}, {}, only_placing)[0];
  };
  CHECK(slow(true, 0.9) < 1.01);
  CHECK(slow(true, 0) > 1.3);
  CHECK(slow(false, 0.9) > 1.3); // in bursts they meet those of others
}

TEST_CASE("each start of another graph's kernel costs its time") {
  const kernel_chain few = chain({kernel(100, 1, 4)}), many = chain({kernel(10, 1, 4)});
  const auto slow = beside({&few, &many}, no_contention(), {0, 0.5});
  CHECK(slow[0] == doctest::Approx(1.05).epsilon(0.01));
  CHECK(slow[1] == doctest::Approx(1.005).epsilon(0.01));
}

TEST_CASE("the start of a kernel costs a graph between kernels nothing") {
  kernel_chain waits = chain({kernel(1, 1, 4)});
  waits.gap_us = 99; // a start in its pause costs it nothing
  waits.at_start = {1.0};
  const kernel_chain many = chain({kernel(10, 500, 4)});
  CHECK(beside({&waits, &many}, no_contention(), only_placing, {4000, 4}, false)[0] < 1.011);
}

TEST_CASE("equal graphs in step pay for each other's starts as those out of step do") {
  kernel_chain graph = chain(std::vector<chain_kernel>(20, kernel(2, 1, 4)));
  graph.gap_us = 1;
  graph.at_start = {5.0};
  kernel_chain out_of_step = graph;
  for (chain_kernel& k : out_of_step.kernels) k.us = 2.3;
  const replay_law starts{0, 0.5};
  const double apart = beside({&graph, &out_of_step}, no_contention(), starts, {4000, 4}, false)[0];
  CHECK(apart > 1.05);
  for (const double slow : beside({&graph, &graph}, no_contention(), starts, {4000, 4}, false))
    CHECK(slow == doctest::Approx(apart).epsilon(0.04));
}

TEST_CASE("a kernel that keeps the dispatcher stops the starts of kernels on other SMs") {
  const double rate = replay_law::blocks_per_us;
  const kernel_chain few = chain(std::vector<chain_kernel>(500, kernel(2, 1, 4)));
  const auto slow = [&](double use, double of_time) { // of a kernel of 100 us
    kernel_chain many = chain({kernel(100, std::round(100 * use * rate), 4, 4)});
    many.gap_us = 100 * (1 / of_time - 1);
    return beside({&few, &many}, no_contention(), only_placing, {40000, 40, 4'000'000, 0.5},
                  false)[0];
  };
  CHECK(slow(0.8, 0.5) < 1.01);
  CHECK(slow(1, 0.2) ==
        doctest::Approx(1.25).epsilon(0.03)); // it starts nothing in a fifth of the time
  CHECK(slow(1, 0.5) == doctest::Approx(2).epsilon(0.03));
  CHECK(slow(0.95, 0.5) == doctest::Approx(slow(1, 0.5)).epsilon(0.01));
  // What has started goes on: a kernel as long as the other is held up half as long in the mean.
  const kernel_chain lengthy = chain({kernel(100, 1, 4)});
  kernel_chain half = chain({kernel(100, 100 * rate, 4, 4)});
  half.gap_us = 123;
  CHECK(beside({&lengthy, &half}, no_contention(), only_placing, {90000, 90}, false)[0] < 1.5);
}

TEST_CASE("a kernel whose blocks fit at once keeps the dispatcher until they are placed") {
  const replay_law none{0, 0};
  CHECK(none.dispatch_us(replay_law::blocks_per_us) == doctest::Approx(1));
  CHECK(none.dispatch_us(0) == 0);
}

TEST_CASE("the dispatcher places the blocks of older kernels first") {
  const double rate = replay_law::blocks_per_us;
  const auto slow = [&](double use) {
    const kernel_chain both = chain({kernel(100, std::round(100 * use * rate), 4, 4)});
    return beside({&both, &both}, no_contention(), only_placing, {40000, 40}, false);
  };
  CHECK(slow(0.4)[0] < 1.01);
  const std::vector<double> crowded = slow(0.7); // of each two, the older takes its time
  CHECK(crowded[0] + crowded[1] > 2.3);
  CHECK(replay_law::waits_for_dispatcher(0.7, 0.7) == doctest::Approx(0.7 / 0.3));
  CHECK(replay_law::waits_for_dispatcher(0.7, 0.3) == doctest::Approx(1));
  CHECK(replay_law::waits_for_dispatcher(1, 1) == doctest::Approx(10)); // it still ends
}

TEST_CASE("beside blocks of one warp that an SM can hardly start, others start late") {
  CHECK(replay_law::late_us(0.6, 1, 18) == doctest::Approx(0.9));
  CHECK(replay_law::late_us(0.6, 1, 10) == 0);
  CHECK(replay_law::late_us(0.6, 4, 18) == 0);
  const kernel_chain few = chain(std::vector<chain_kernel>(50, kernel(2, 1, 4)));
  const auto slow = [&](double warps) { // 16 SMs start 17 blocks a microsecond each
    const kernel_chain many = chain({kernel(1000, 17 * sms * 1000, 32, warps)});
    return beside({&few, &many}, no_contention(), only_placing, {20000, 20}, false)[0];
  };
  CHECK(slow(2) < 1.01);
  const double use = 17 * sms / replay_law::blocks_per_us;
  CHECK(slow(1) == doctest::Approx(1 + 2.5 * use * use / 2).epsilon(0.01));
}

TEST_CASE("a start costs the same for any number of blocks") {
  const auto slow = [&](double blocks, bool shares) {
    kernel_chain few = chain({kernel(100, 1, 4)});
    few.at_start = {2.0};
    const kernel_chain many = chain({kernel(10, blocks, 64)});
    return beside({&few, &many}, no_contention(), {0, 0.5}, {4000, 4}, shares)[0];
  };
  for (const bool shares : {false, true})
    CHECK(slow(500, shares) == doctest::Approx(slow(1, shares)).epsilon(0.005));
}

TEST_CASE("on shared SMs busy ones hide the pause of a start") {
  const replay_law starts{0, 0.5};
  CHECK(starts.lost_us(0, 0.5) == doctest::Approx(0.5 * 0.875));
  CHECK(starts.lost_us(0, 1) == 0);
  kernel_chain idle = chain({kernel(100, 1, 4)}), busy = idle;
  busy.kernels[0].takes.of(resource::fma) = 0.8;
  const kernel_chain many = chain({kernel(10, 1, 4)});
  CHECK(beside({&idle, &many}, no_contention(), starts)[0] == doctest::Approx(1.05).epsilon(0.01));
  CHECK(beside({&busy, &many}, no_contention(), starts)[0] ==
        doctest::Approx(1 + 0.05 * (1 - 0.8 * 0.8 * 0.8)).epsilon(0.01));
}

TEST_CASE("gaps grow with the traffic of the neighbours to L2") {
  kernel_chain some = chain({kernel(9, 1, 4)}), busy = chain({kernel(1000, 1, 4)});
  some.gap_us = 1;
  const auto slow = [&](double l2) {
    busy.kernels[0].takes.of(resource::l2) = l2;
    return beside({&some, &busy}, no_contention(), {2, 0}, {4000, 4}, false)[0];
  };
  CHECK(slow(0) == doctest::Approx(1));
  CHECK(slow(0.5) == doctest::Approx(1.1).epsilon(0.01));
  CHECK(slow(1) == doctest::Approx(1.2).epsilon(0.01));
}

TEST_CASE("gaps grow with the root of what endless kernels stream through L2, beside own traffic") {
  kernel_chain some = chain({kernel(9, 1, 4)}), copies = chain({kernel(1000, 1, 4)});
  some.gap_us = 1;
  copies.endless = true;
  copies.kernels[0].takes.of(resource::l2) = 1; // which does not count
  const auto slow = [&](double own, double dram) {
    some.kernels[0].takes.of(resource::dram) = own;
    copies.kernels[0].takes.of(resource::dram) = dram;
    return beside({&some, &copies}, no_contention(), {2, 0}, {4000, 4}, false)[0];
  };
  CHECK(slow(0, 0) == doctest::Approx(1));
  CHECK(slow(0, 0.25) == doctest::Approx(1.1).epsilon(0.01));
  CHECK(slow(0, 1) == doctest::Approx(1.2).epsilon(0.01));
  CHECK(slow(0.4, 0.25) == doctest::Approx(1 + 0.2 * (std::sqrt(0.61) - 0.6)).epsilon(0.01));
}

TEST_CASE("a copy whose warps get as much as on an idle device slows blocks beside it less") {
  const auto slow = [&](double l2) {
    kernel_chain loads = chain({kernel(100, sms, 4)}), copies = chain({kernel(1000, sms, 4)});
    loads.kernels[0].takes.of(resource::l2) = 0.01;
    copies.endless = true;
    copies.kernels[0].warps = 32;
    copies.kernels[0].takes.of(resource::l2) = l2;
    contention_law crowded = no_contention();
    crowded.warps = 0.2;
    return beside({&loads, &copies}, crowded, only_placing)[0];
  };
  CHECK(slow(0.25) < 1.03);
  CHECK(slow(0.09) > 1.3);
}

TEST_CASE("a neighbour that a third graph slows takes less of what it shares") {
  const auto taking = [](double shared, double fma) {
    kernel_chain c = chain({kernel(100, sms, 4)});
    c.kernels[0].takes.of(resource::shared_memory) = shared;
    c.kernels[0].takes.of(resource::fma) = fma;
    return c;
  };
  const kernel_chain reads = taking(0.9, 0), both = taking(0.9, 0.9), computes = taking(0, 0.9);
  const double pair = beside({&reads, &both}, {}, only_placing)[0];
  CHECK(pair > 1.5);
  CHECK(beside({&reads, &computes}, {}, only_placing)[0] < 1.01);
  CHECK(beside({&reads, &both, &computes}, {}, only_placing)[0] < 0.9 * pair);
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
  window.replays = 4;
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

TEST_CASE(
    "blocks of one warp that keep the dispatcher take as long as it needs, on fewer SMs too") {
  const architecture_limits sm = limits_for(9, 0);
  profile p = one_kernel(166'000, 100, 200); // on 100 SMs
  p.operations[1].work.launch.grid.x = 100;
  const auto on = [&](std::uint32_t some, double us, std::uint32_t threads) {
    p.operations[0].work.launch.block.x = threads;
    return chain_of(p, sm, {}, chain_place{sm_count{some}, from_us(us)});
  };
  const double alone = chain_of(p, sm, {}).kernels[0].us;
  CHECK(on(90, 300, 32).kernels[0].us == doctest::Approx(alone));
  CHECK(on(50, 500, 32).kernels[0].us == doctest::Approx(alone * 1.66)); // the SMs start 1,000 a us
  CHECK(on(90, 300, 64).kernels[0].us > 1.3 * alone);                    // by its part of the time
  for (const std::uint32_t threads : {32u, 64u})
    CHECK(on(90, 300, threads).replay_us() == doctest::Approx(300));
}

TEST_CASE("the counter of tensor cores has the FP16 instructions, which lower no clock") {
  kernel_counters c;
  c.pipes.fp16 = 0.4;
  c.pipes.tensor = 0.4;
  CHECK(demand_of(c).of(resource::tensor) == 0);
  CHECK(demand_of(c).of(resource::fp64) == 0.4); // the port
  CHECK(!demand_of(c).low_clock);
  c.pipes.tensor = 0.6;
  CHECK(demand_of(c).of(resource::tensor) == doctest::Approx(0.2));
  CHECK(demand_of(c).low_clock);
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
