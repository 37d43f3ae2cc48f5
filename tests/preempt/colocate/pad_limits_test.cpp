// SPDX-License-Identifier: Apache-2.0
// Padding by predicted slow-downs.
#include "allocations.hpp"
#include "preempt/colocate/plan_check.hpp"
#include "preempt/colocate/random_variants.hpp"

#include <gsched/interference/surroundings.hpp>
#include <gsched/preempt/colocate/pad_limits.hpp>
#include <gsched/preempt/colocate/plan.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

using test::draw;

constexpr double sms = 132;

double part(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1.0p-53; }

chain_kernel counted(std::mt19937_64& random, double most_blocks) {
  chain_kernel k;
  k.us = 10;
  k.blocks = 1 + std::floor(part(random) * most_blocks);
  k.per_sm = draw(random, 1, 8);
  k.warps = draw(random, 1, 8);
  for (double& use : k.takes.use)
    if (draw(random, 0, 2) == 0) use = part(random);
  k.takes.kept = part(random);
  k.takes.working_set = draw(random, 0, 1) * 1e8 * part(random);
  k.takes.conflict = draw(random, 1, 4);
  if (draw(random, 0, 1) == 0) {
    k.takes.waits.memory = part(random);
    k.takes.waits.executing = 1 - k.takes.waits.memory;
    k.takes.waits.blocked = part(random);
  }
  return k;
}

kernel_chain counted_chain(std::mt19937_64& random, std::size_t kernels, double most_blocks) {
  kernel_chain c;
  c.sms = sms;
  for (std::size_t i = 0; i < kernels; ++i) c.kernels.push_back(counted(random, most_blocks));
  return c;
}

chain_kernel with_use(double blocks, resource r, double use) {
  chain_kernel k;
  k.us = 20;
  k.blocks = blocks;
  k.per_sm = 4;
  k.warps = 8;
  k.takes.of(r) = use;
  if (r == resource::dram) k.takes.of(resource::l2) = use / 2;
  return k;
}

kernel_chain chain(std::vector<chain_kernel> kernels) {
  kernel_chain c;
  c.sms = sms;
  c.kernels = std::move(kernels);
  return c;
}

/// A plan by the definition: of all co-runners and variants, and nothing kept between kernels.
std::vector<pad_part> naive_plan(const pad_program& rt, std::vector<pad_corunner>& at,
                                 const pad_options& how, std::span<const pad_limits* const> by) {
  std::vector<pad_part> all;
  for (std::uint32_t i = 0; i < rt.size(); ++i) {
    pad_capacity room(rt.variants(i).front(), how);
    std::vector<pad_part> here;
    double rest = 1;
    const auto admitted = [&](std::size_t g) -> std::uint32_t {
      for (const pad_part& p : here)
        if (p.corunner == g) return 0;
      if (at[g].operation >= at[g].program->size()) return 0;
      const std::uint32_t m =
          by[g] == nullptr ? pad_limits::no_limit : by[g]->most(i, at[g].operation);
      return m == pad_limits::no_limit ? m : static_cast<std::uint32_t>(m * rest + 1e-9);
    };
    for (;;) {
      std::optional<pad_pick> best;
      duration least = duration::max();
      for (std::uint32_t g = 0; g < at.size(); ++g) {
        if (admitted(g) == 0) continue;
        const auto of = at[g].program->variants(at[g].operation);
        for (std::uint32_t v = 0; v < of.size(); ++v)
          if ((at[g].block == 0 || v == at[g].variant) && room.terms().admit(of[v]) &&
              of[v].kernel_time < least) {
            least = of[v].kernel_time;
            best = pad_pick{g, v};
          }
      }
      if (!best) break;
      const pad_corunner& c = at[best->task];
      const kernel_variant& k = c.program->variants(c.operation)[best->variant];
      const std::uint32_t taken = room.take(k, std::min(k.blocks - c.block, admitted(best->task)));
      here.push_back({i, best->task, c.operation, best->variant, c.block, taken, 0});
      if (by[best->task] != nullptr)
        if (const std::uint32_t m = by[best->task]->most(i, c.operation); m != pad_limits::no_limit)
          rest -= static_cast<double>(taken) / m;
    }
    for (pad_part& p : here) {
      p.level = room.level();
      pad_corunner& c = at[p.corunner];
      c.variant = p.variant;
      c.block += p.blocks;
      if (c.block == c.program->variants(c.operation)[c.variant].blocks)
        c = {c.program, c.operation + 1, 0, 0};
      all.push_back(p);
    }
  }
  return all;
}

} // namespace

TEST_CASE("a kernel of one wave ends with its slowest block, one of many at the mean") {
  const contention_law law;
  const chain_kernel be = with_use(132, resource::issue, 0.6);
  const auto slow = [&](double waves, std::uint32_t blocks) {
    chain_kernel rt = with_use(132 * 4 * waves, resource::issue, 0.6);
    rt.us = 10;
    return padded_slowdown(rt, be, blocks, sms, law);
  };
  CHECK(slow(1, 1) > 1.05);
  CHECK(slow(1, 1) == doctest::Approx(slow(1, 132)));
  CHECK(slow(3, 1) < 1.01);
  CHECK(slow(3, 132) == doctest::Approx(slow(1, 132)));
}

TEST_CASE("blocks slow a longer kernel while they run") {
  const contention_law law;
  const chain_kernel rt = with_use(132 * 4, resource::issue, 0.6);
  chain_kernel be = with_use(132, resource::issue, 0.6);
  const double all = padded_slowdown(rt, be, 132, sms, law) - 1;
  CHECK(all > 0.05);
  be.us = rt.us / 4;
  CHECK(padded_slowdown(rt, be, 132, sms, law) - 1 == doctest::Approx(all / 4));
  be.us = 4 * rt.us;
  CHECK(padded_slowdown(rt, be, 132, sms, law) - 1 == doctest::Approx(all));
  be.us = rt.us; // four waves, of which each takes a quarter
  be.blocks = 4 * 132 * be.per_sm;
  const auto one_wave = static_cast<std::uint32_t>(132 * be.per_sm);
  const double a_wave = padded_slowdown(rt, be, one_wave, sms, law) - 1;
  CHECK(padded_slowdown(rt, be, 2 * one_wave, sms, law) - 1 == doctest::Approx(2 * a_wave));
}

TEST_CASE("a large grid places blocks of the real-time kernel together on one SM of a pair") {
  const contention_law law;
  const chain_kernel be = with_use(2000, resource::alu, 0.001);
  const auto slow = [&](double blocks, double in, double per_sm, double dram) {
    chain_kernel rt = with_use(blocks, resource::dram, dram);
    rt.takes.of(resource::issue) = 0.1;
    rt.per_sm = per_sm;
    return padded_slowdown(rt, be, static_cast<std::uint32_t>(in - blocks), sms, law);
  };
  const double two = (7 + 2 * 8) / (7 + 8.0), three = (7 + 3 * 8) / (7 + 2 * 8.0); // warps of an SM
  CHECK(slow(100, 263, 4, 0) < 1.01);
  CHECK(slow(100, 264, 4, 0) == doctest::Approx(two).epsilon(0.01));
  CHECK(slow(100, 600, 4, 0) ==
        doctest::Approx(two).epsilon(0.01)); // one for each of 66, and then 34
  CHECK(slow(64, 600, 4, 0) < 1.01);
  CHECK(slow(256, 395, 4, 0) < 1.01); // two on an SM alone
  CHECK(slow(256, 396, 4, 0) == doctest::Approx(three).epsilon(0.01));
  CHECK(slow(256, 396, 2, 0) < 1.01);                // no place for a third
  CHECK(slow(100, 264, 4, 0.8) < 1 + (two - 1) / 4); // all SMs share what it waits for
}

TEST_CASE("stores that fill the queues of memory leave room for fewer blocks") {
  const contention_law law;
  const chain_kernel rt = with_use(66, resource::dram, 0.3);
  chain_kernel loads = with_use(66, resource::dram, 0.4);
  loads.takes.waits.memory = loads.takes.waits.executing = 0.5;
  chain_kernel stores = loads;
  stores.takes.waits.blocked = 0.6;
  CHECK(padded_slowdown(rt, stores, 60, sms, law) >
        padded_slowdown(rt, loads, 60, sms, law) + 0.02);
  const pad_limits limits(chain({rt}), chain({loads, stores}), law, 1.05);
  CHECK(limits.most(0, 1) < limits.most(0, 0));
}

TEST_CASE("limits are the most blocks within the allowance, as a search of all finds") {
  std::mt19937_64 random(5);
  const contention_law law;
  std::size_t none = 0, some = 0, all = 0;
  for (int round = 0; round < 60; ++round) {
    const kernel_chain rt = counted_chain(random, 3, 300), be = counted_chain(random, 4, 600);
    const double allowed = 1 + 0.3 * part(random);
    const pad_limits limits(rt, be, law, allowed);
    for (std::size_t i = 0; i < rt.kernels.size(); ++i)
      for (std::size_t k = 0; k < be.kernels.size(); ++k) {
        std::uint32_t most = 0;
        double before = 1;
        const auto blocks = static_cast<std::uint32_t>(be.kernels[k].blocks);
        for (std::uint32_t n = 1; n <= blocks; ++n) {
          const double s = padded_slowdown(rt.kernels[i], be.kernels[k], n, sms, law);
          CHECK(s >= before - 1e-12); // never falls
          before = s;
          if (s <= allowed) most = n;
        }
        CHECK(limits.most(i, k) == (most == blocks ? pad_limits::no_limit : most));
        ++(most == 0 ? none : most == blocks ? all : some);
      }
  }
  CHECK(none > 3);
  CHECK(some > 100);
  CHECK(all > 20);
}

TEST_CASE("memory-heavy kernels do not pad one another; others do, and fill idle SMs") {
  const kernel_chain rt =
      chain({with_use(64, resource::dram, 0.8), with_use(64, resource::fma, 0.8)});
  const kernel_chain be =
      chain({with_use(528, resource::dram, 0.9), with_use(528, resource::fma, 0.9)});
  const pad_limits limits(rt, be, {});
  CHECK(limits.most(0, 0) < 68); // not even the idle SMs
  CHECK(limits.most(0, 1) >= 68);
  CHECK(limits.most(1, 0) >= 68);
  CHECK(limits.most(1, 1) >= 68);
  CHECK(limits.most(1, 1) < 528); // beside them on their SMs, they take issue slots
  const pad_limits any(rt, be, {}, 1000);
  CHECK(any.most(0, 0) == pad_limits::no_limit);
}

TEST_CASE("kernels without counters have no limit") {
  chain_kernel unknown = with_use(528, resource::dram, 0);
  const chain_kernel heavy = with_use(528, resource::dram, 0.9);
  CHECK(pad_limits(chain({heavy}), chain({unknown}), {}).most(0, 0) == pad_limits::no_limit);
  CHECK(pad_limits(chain({unknown}), chain({heavy}), {}).most(0, 0) == pad_limits::no_limit);
  chain_kernel copy = heavy;
  copy.blocks = 0;
  CHECK(pad_limits(chain({copy}), chain({heavy}), {}).most(0, 0) == pad_limits::no_limit);
  kernel_chain half = chain({heavy});
  half.sms = 66;
  CHECK_THROWS_AS(pad_limits(half, chain({heavy}), {}), error);
  CHECK_THROWS_AS(pad_limits(chain({heavy}), chain({heavy}), {}, 0.9), error);
}

TEST_CASE("parts that use up the allowance together are predicted to take little more than it") {
  std::mt19937_64 random(7);
  const contention_law law;
  std::size_t sets = 0, above = 0;
  while (sets < 3000) {
    const chain_kernel rt = counted(random, 300);
    std::vector<chain_kernel> be;
    std::vector<double> blocks;
    double total = 0, rest = 1;
    for (std::uint32_t n = draw(random, 2, 3); n > 0; --n) {
      be.push_back(counted(random, 600));
      be.back().us = 1000; // longer than the real-time kernel
      const std::uint32_t most = pad_limits(chain({rt}), chain({be.back()}), law).most(0, 0);
      const double use = n == 1 ? rest : rest * part(random);
      rest -= use;
      blocks.push_back(most == pad_limits::no_limit ? 0 : std::floor(most * use));
      total += blocks.back();
    }
    if (!(total > 0)) continue;
    ++sets;
    const double shared = std::max(0.0, total - std::max(0.0, sms - rt.blocks)) / total;
    surroundings around;
    for (std::size_t i = 0; i < be.size(); ++i) {
      const chain_kernel& k = be[i];
      const double alone = std::clamp(k.blocks / sms, 1.0, k.per_sm);
      around.add(k.takes, blocks[i] * shared / sms / alone,
                 blocks[i] / std::min(k.blocks, sms * k.per_sm), alone * k.warps, false);
    }
    above +=
        law.slowdown(rt.takes, rt.warps_per_sm(sms), around) > pad_limits::default_slowdown + 0.015;
  }
  CHECK(above < sets / 50);
}

TEST_CASE("the planner keeps to limits, as a plan by the definition does, without allocation") {
  std::mt19937_64 random(6);
  std::size_t limited = 0, parts = 0;
  for (int round = 0; round < 400; ++round) {
    pad_options how;
    how.sms = sm_count{draw(random, 2, 6)};
    how.parts = draw(random, 1, 4);
    const std::uint32_t corunners = draw(random, 1, 4);
    const pad_program rt("rt", test::small_program(random, 8, 1));
    std::vector<pad_program> programs;
    std::vector<pad_limits> tables;
    std::vector<const pad_limits*> by;
    std::vector<pad_corunner> at;
    programs.reserve(corunners);
    tables.reserve(corunners);
    kernel_chain host;
    host.sms = how.sms.count();
    for (std::size_t i = 0; i < rt.size(); ++i) host.kernels.push_back(counted(random, 8));
    for (std::uint32_t g = 0; g < corunners; ++g) {
      programs.emplace_back("be", test::small_program(random, 5, 3));
      kernel_chain c;
      c.sms = host.sms;
      for (std::size_t k = 0; k < programs[g].size(); ++k) c.kernels.push_back(counted(random, 12));
      tables.emplace_back(host, c, contention_law{}, 1 + part(random));
      by.push_back(draw(random, 0, 3) == 0 ? nullptr : &tables[g]);
      at.push_back({&programs[g], 0, 0, 0});
    }
    pad_planner planner(how, corunners, 3);
    std::vector<pad_part> out(200);
    std::vector<pad_corunner> now = at, expected = at;
    const std::size_t before = allocations();
    const std::size_t n = planner.plan(rt, 0, rt.size(), now, out, by);
    CHECK(allocations() == before);
    out.resize(n);
    CHECK(out == naive_plan(rt, expected, how, by));
    CHECK(now == expected);
    std::vector<double> used(rt.size());
    for (const pad_part& p : out) {
      ++parts;
      if (by[p.corunner] == nullptr) continue;
      const std::uint32_t most = by[p.corunner]->most(p.host_operation, p.corunner_operation);
      if (most == pad_limits::no_limit) continue;
      ++limited;
      used[p.host_operation] += static_cast<double>(p.blocks) / most;
      CHECK(used[p.host_operation] <= 1 + 1e-6);
    }
    // Nothing is kept from one plan to the next: without limits, by the rules alone.
    now = at;
    std::vector<pad_part> rules(200);
    rules.resize(planner.plan(rt, 0, rt.size(), now, rules));
    test::check_plan(rt, 0, at, now, rules, how);
  }
  CHECK(parts > 500);
  CHECK(limited > 100);
}

} // namespace gsched::testing
