// SPDX-License-Identifier: Apache-2.0
#include <gsched/sim/detail/laws/contention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>

namespace {

using namespace gsched;
using sim::contention_law;
using sim::kernel_load;
using sim::surroundings;

constexpr sm_count all{132};

kernel_load load(float memory, float warps, float solo_warps, float fixed) {
  kernel_load k;
  k.memory = memory;
  k.warps = warps;
  k.solo_warps = solo_warps;
  k.fixed = fixed;
  return k;
}

surroundings alone(const kernel_load& k) {
  surroundings s;
  s.own_warps = k.solo_warps;
  return s;
}

operation kernel(std::uint32_t blocks, std::uint32_t threads, double us) {
  operation op;
  op.launch.grid = {blocks, 1, 1};
  op.launch.block = {threads, 1, 1};
  op.expected = from_us(us);
  return op;
}

} // namespace

TEST_CASE("contention: a kernel alone runs at its own speed") {
  const contention_law law;
  for (const kernel_load& k : {load(0, 4, 4, 0), load(1, 32, 64, 0.9f), load(0.5f, 8, 16, 0.3f)}) {
    CHECK(law.stretch(k, alone(k)) == doctest::Approx(1));
    CHECK(law.gap(alone(k)) == duration::zero());
  }
}

TEST_CASE("contention: each thing that is shared costs, and more of it costs more") {
  const contention_law law;
  const kernel_load k = load(0.4f, 4, 32, 0.1f);
  const auto slower = [&](float surroundings::*what, float by) {
    surroundings s = alone(k);
    s.beside = true;
    float last = law.stretch(k, s);
    for (int i = 1; i <= 8; ++i) {
      s.*what = by * static_cast<float>(i);
      const float now = law.stretch(k, s);
      REQUIRE(now > last);
      last = now;
    }
  };
  slower(&surroundings::other_warps, 8);
  slower(&surroundings::near_memory, 0.25f);
  slower(&surroundings::far_memory, 0.25f);

  surroundings s = alone(k);
  s.beside = true;
  CHECK(law.stretch(k, s) == doctest::Approx(1 + law.beside));
  const duration quiet = law.gap(s);
  CHECK(quiet > duration::zero());
  s.far_memory = 0.5f;
  CHECK(law.gap(s) > quiet);
}

TEST_CASE("contention: equal kernels slow each other equally, a greedier one slows more") {
  const contention_law law;
  // Both hold half of the blocks that they hold alone, on the same SMs.
  const auto stretch_of = [&](const kernel_load& self, const kernel_load& other) {
    surroundings s;
    s.own_warps = self.solo_warps / 2;
    s.other_warps = other.solo_warps / 2;
    s.near_memory = other.memory / 2;
    s.beside = true;
    return law.stretch(self, s);
  };
  const kernel_load a = load(0.6f, 8, 32, 0.05f);
  const kernel_load b = a;
  CHECK(stretch_of(a, b) == stretch_of(b, a));
  // The pair's throughput is between half of one device and two devices.
  const double together = 0.5 / stretch_of(a, b) + 0.5 / stretch_of(b, a);
  CHECK(together < 2.0);
  CHECK(together > 0.5);

  const kernel_load greedy = load(0.9f, 8, 64, 0.05f);
  CHECK(stretch_of(a, greedy) > stretch_of(a, b));
}

TEST_CASE("contention: with fewer blocks than alone, no kernel as a whole is faster than alone") {
  const contention_law law;
  std::mt19937_64 random(7);
  const auto uniform = [&](double from, double to) {
    return static_cast<float>(std::uniform_real_distribution<double>(from, to)(random));
  };
  for (int i = 0; i < 100000; ++i) {
    const float warps = uniform(1, 32);
    const kernel_load k =
        load(uniform(0, 1), warps, warps * uniform(1, 64 / warps), uniform(0, 0.9));
    const float part = uniform(0.01, 1); // of the blocks that are resident when it is alone
    surroundings s;
    s.own_warps = k.solo_warps * part;
    s.other_warps = uniform(0, 64);
    s.near_memory = uniform(0, 2);
    s.far_memory = uniform(0, 2);
    s.beside = true;
    REQUIRE(part / law.stretch(k, s) <= 1.0f);
    REQUIRE(law.stretch(k, s) < 100);
  }
}

TEST_CASE("load: what scales needs no memory, what does not scale does, if it has the warps") {
  operation scaling = kernel(6272, 128, 100);
  scaling.by_sms.push_back({sm_count{66}, from_us(198)});
  operation flat = scaling;
  flat.by_sms.clear();
  flat.by_sms.push_back({sm_count{66}, from_us(101)});
  operation lonely = kernel(40, 32, 100);
  lonely.by_sms.push_back({sm_count{66}, from_us(100)});

  const auto memory = [](const operation& op) {
    const sim::scaling_table t(op, all, 16);
    return sim::load_of(op, t, all, 16).memory;
  };
  CHECK(memory(scaling) < 0.05f);
  CHECK(memory(flat) > 0.8f);
  CHECK(memory(lonely) < 0.05f);
}

TEST_CASE("load: the same bytes over a longer time are less throughput") {
  operation op = kernel(6272, 128, 100);
  op.by_sms.push_back({sm_count{32}, from_us(200)});
  op.by_sms.push_back({sm_count{66}, from_us(105)});
  const sim::scaling_table t(op, all, 16);
  const float whole = sim::load_of(op, t, all, 16).memory;
  const float part = sim::load_of(op, t, sm_count{32}, 16).memory;
  CHECK(part == doctest::Approx(whole / 2));
}

TEST_CASE("load: warps are those of the blocks that an SM holds at once") {
  const operation few = kernel(100, 256, 50);
  const operation many = kernel(10000, 256, 50);
  const sim::scaling_table few_table(few, all, 8);
  const sim::scaling_table many_table(many, all, 8);
  CHECK(sim::load_of(few, few_table, all, 8).solo_warps == 8);
  CHECK(sim::load_of(few, few_table, sm_count{50}, 8).solo_warps == 16);
  CHECK(sim::load_of(many, many_table, all, 8).solo_warps == 64);
}

TEST_CASE("load: always within bounds, whatever the launch") {
  for (const std::uint32_t blocks : {1u, 100u, 100000u})
    for (const std::uint32_t threads : {1u, 1024u})
      for (const double us : {0.0, 0.5, 3.0, 5000.0})
        for (const std::uint32_t sms : {0u, 1u, 64u, 132u, 1000u}) {
          const operation op = kernel(blocks, threads, us);
          const sim::scaling_table t(op, all, 2);
          const kernel_load k = sim::load_of(op, t, sm_count{sms}, 2);
          REQUIRE(k.memory >= 0);
          REQUIRE(k.memory <= 1);
          REQUIRE(k.fixed >= 0);
          REQUIRE(k.fixed <= 1);
          REQUIRE(k.warps >= 1);
          REQUIRE(k.solo_warps >= k.warps);
        }
  operation copy;
  copy.kind = operation_kind::memcpy;
  copy.expected = from_us(10);
  const sim::scaling_table t(copy, all, 0);
  CHECK(sim::load_of(copy, t, all, 0).memory == 0);
  CHECK(sim::load_of(copy, t, all, 0).fixed == 1);
}
