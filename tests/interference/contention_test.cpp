// SPDX-License-Identifier: Apache-2.0
#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/surroundings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace gsched::testing {
namespace {

/// A kernel on SMs that it shares with the others, oldest first.
struct running {
  demand takes{};
  double warps = 8;
};

surroundings around(const std::vector<running>& all, std::size_t which, bool shares = true) {
  surroundings s;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != which) s.add(all[i].takes, shares ? 1 : 0, 1, all[i].warps, i < which);
  return s;
}

double slowdown(const contention_law& law, const std::vector<running>& all, std::size_t which,
                bool shares = true) {
  return law.slowdown(all[which].takes, all[which].warps, around(all, which, shares));
}

demand with(resource r, double use) {
  demand d;
  d.of(r) = use;
  return d;
}

struct any_kernels {
  std::mt19937_64 random{17};
  double operator()(double least, double most) {
    return std::uniform_real_distribution(least, most)(random);
  }
  warp_waits waits() {
    warp_waits w;
    w.memory = (*this)(0, 0.5);
    w.load_cycles = random() % 3 == 0 ? 0 : (*this)(30, 2000);
    w.shared_memory = (*this)(0, 0.2);
    w.shared_cycles = random() % 3 == 0 ? 0 : (*this)(20, 300);
    w.instructions = (*this)(0, 0.1);
    w.executing = (*this)(0, 1);
    w.blocked = (*this)(0, 1);
    return w;
  }
  std::vector<running> some(std::size_t n) {
    std::vector<running> all(n);
    for (running& k : all) {
      for (double& use : k.takes.use) use = random() % 2 == 0 ? (*this)(0, 1) : 0;
      k.takes.kept = (*this)(0, 1);
      if (random() % 3 == 0) k.takes.working_set = (*this)(0, 1e8);
      k.takes.conflict = random() % 2 == 0 ? 1 : (*this)(1, 32);
      k.takes.low_clock = random() % 3 == 0;
      k.takes.steady = random() % 3 == 0;
      if (random() % 2 == 0) k.takes.waits = waits();
      k.takes.fixed_stall = (*this)(0, 3);
      k.takes.buffer_us = random() % 2 == 0 ? (*this)(0.1, 10) : 0;
      k.takes.queue_cycles = random() % 2 == 0 ? (*this)(0, 4000) : 0;
      k.takes.stores = random() % 3 == 0 ? (*this)(0, 1) : 0;
      k.takes.access_cycles = random() % 2 == 0 ? (*this)(300, 10000) : 0;
      k.warps = (*this)(1, 64);
    }
    return all;
  }
};

// A probe whose reads L2 serves.
demand endless_reads(double queue_cycles) {
  demand d = with(resource::l2, 0.4);
  d.steady = true;
  d.waits.memory = 0.85;
  d.queue_cycles = queue_cycles;
  d.kept = 1;
  return d;
}
// A kernel whose warps wait for their own instructions alone.
demand product_of_hits() {
  demand d = with(resource::l2, 0.1);
  d.waits.executing = 0.7;
  d.kept = 1;
  return d;
}

contention_law harsh() { return contention_law::of({1, 2, 1, 0.9, 0.8, 1, 0.5}); }

} // namespace

TEST_CASE("contention: a kernel alone is not slowed, whatever it takes") {
  any_kernels any;
  for (int i = 0; i < 1000; ++i) {
    const std::vector<running> one = any.some(1);
    CHECK(slowdown(harsh(), one, 0) == doctest::Approx(1));
  }
}

TEST_CASE("contention: at least 1, and never less for more demand of a neighbour") {
  any_kernels any;
  for (int i = 0; i < 20000; ++i) {
    std::vector<running> all = any.some(2 + static_cast<std::size_t>(i) % 3);
    const bool shares = i % 4 != 0;
    const contention_law law = i % 2 == 0 ? contention_law{} : harsh();
    const std::size_t of = any.random() % all.size();
    const double before = slowdown(law, all, of, shares);
    REQUIRE(before >= doctest::Approx(1));
    REQUIRE(std::isfinite(before));
    std::size_t by = any.random() % all.size();
    if (by == of) by = (by + 1) % all.size();
    const std::size_t r = any.random() % resources;
    CAPTURE(resource_names[r]);
    double& use = all[by].takes.use[r];
    use = std::min(1.0, use + any(0, 0.3));
    REQUIRE(slowdown(law, all, of, shares) >= before * (1 - 1e-12));
  }
}

TEST_CASE("contention: never less for more demand of its own, unless others then wait for it") {
  any_kernels any;
  for (int i = 0; i < 20000; ++i) {
    std::vector<running> all = any.some(2);
    all[1].takes.access_cycles = 0; // the more it fills DRAM, the more of its accesses wait there
    contention_law law = harsh();
    law.older = law.clock = 0;
    const bool shares = i % 2 == 0;
    const double before = slowdown(law, all, 1, shares);
    // On crowded SMs, a kernel that waits for DRAM is the one that loses less.
    const std::size_t r = any.random() % (shares ? resources - 1 : resources);
    CAPTURE(resource_names[r]);
    double& use = all[1].takes.use[r];
    CAPTURE(use);
    double more = std::min(1 - use, any(0, 0.3));
    if (r == index(resource::shared_memory)) { // the counter of L1 has these accesses too
      double& l1 = all[1].takes.of(resource::l1);
      more = std::min(more, 1 - l1);
      l1 += more;
    }
    use += more;
    REQUIRE(slowdown(law, all, 1, shares) >= before * (1 - 1e-12));
  }
}

TEST_CASE("contention: on SMs of its own never less for more demand of its own, as it ships") {
  any_kernels any;
  contention_law law;
  law.clock = 0; // which a kernel that waits for DRAM feels less
  for (int i = 0; i < 20000; ++i) {
    std::vector<running> all = any.some(2 + static_cast<std::size_t>(i) % 3);
    all[1].takes.access_cycles = 0;
    const double before = slowdown(law, all, 1, false);
    const std::size_t r = any.random() % resources;
    CAPTURE(resource_names[r]);
    double& use = all[1].takes.use[r];
    use = std::min(1.0, use + any(0, 0.3));
    REQUIRE(slowdown(law, all, 1, false) >= before * (1 - 1e-12));
  }
}

TEST_CASE("contention: a kernel that waits for DRAM loses little by warps beside its own") {
  const contention_law law;
  demand compute, memory;
  compute.of(resource::issue) = memory.of(resource::issue) = 0.3;
  compute.of(resource::l2) = memory.of(resource::l2) = 0.1;
  memory.of(resource::dram) = law.dram;
  surroundings crowd;
  crowd.warps = 32;
  CHECK(law.slowdown(memory, 8, crowd) < law.slowdown(compute, 8, crowd));
}

TEST_CASE("contention: the order of the neighbours does not matter, their sum does") {
  any_kernels any;
  for (int i = 0; i < 1000; ++i) {
    std::vector<running> all = any.some(4);
    const double before = slowdown({}, all, 3);
    std::swap(all[0], all[2]);
    CHECK(slowdown({}, all, 3) == doctest::Approx(before));
  }
}

TEST_CASE("contention: kernels together never exceed a capacity") {
  any_kernels any;
  for (int i = 0; i < 20000; ++i) {
    const std::vector<running> all = any.some(2 + static_cast<std::size_t>(i) % 4);
    const contention_law law = i % 2 == 0 ? contention_law{} : harsh();
    for (std::size_t r = 0; r < resources; ++r) {
      double used = 0;
      for (std::size_t k = 0; k < all.size(); ++k) {
        const demand& d = all[k].takes;
        const double in_shared = r == index(resource::l1) ? d.of(resource::shared_memory) : 0;
        used += std::max(0.0, d.use[r] - in_shared) / slowdown(law, all, k);
      }
      const double limit = r == index(resource::l2) ? std::max(1.0, law.l2) : 1;
      REQUIRE(used <= limit + 0.005 * static_cast<double>(all.size()));
    }
  }
}

TEST_CASE("contention: what is not shared does not slow") {
  const contention_law law;
  const std::vector<running> compute{{with(resource::fma, 0.9), 8}, {with(resource::fp64, 0.9), 8}};
  CHECK(slowdown(law, compute, 0, false) == doctest::Approx(1));
  const std::vector<running> memory{{with(resource::fma, 0.9), 8}, {with(resource::dram, 0.9), 8}};
  CHECK(slowdown(law, memory, 0, false) == doctest::Approx(1)); // it does not touch memory
  const std::vector<running> same{{with(resource::fma, 0.9), 8}, {with(resource::fma, 0.9), 8}};
  CHECK(slowdown(law, same, 0, false) == doctest::Approx(1));
  CHECK(slowdown(law, same, 1) > 1.8);
}

TEST_CASE("contention: two neighbours at 95% of L2 and 90% of DRAM share what there is") {
  demand d = with(resource::l2, 0.95);
  d.of(resource::dram) = 0.9;
  const std::vector<running> two{{d, 8}, {d, 8}};
  CHECK(slowdown({}, two, 0, false) > 1.85);
  CHECK(slowdown({}, two, 0, false) < 2.6);
}

namespace {

contention_law only_shares() { // of DRAM, and no latency
  contention_law law;
  law.l2_latency = law.dram_latency = 0;
  return law;
}
demand at_dram(double use, double access_cycles) {
  demand d = with(resource::dram, use);
  d.access_cycles = access_cycles;
  return d;
}

} // namespace

TEST_CASE("contention: of a full DRAM a kernel with more accesses under way gets more") {
  const contention_law law = only_shares();
  const auto slow = [&](const demand& own, const demand& other) {
    return slowdown(law, {{other, 8}, {own, 8}}, 1, false);
  };
  const demand usual = at_dram(0.8, l2_miss_cycles), many = at_dram(0.8, 4 * l2_miss_cycles),
               most = at_dram(0.8, 12 * l2_miss_cycles), few = at_dram(0.8, 400);
  const double alike = slow(usual, usual);
  CHECK(alike == doctest::Approx(1.6 / law.dram).epsilon(0.01));
  CHECK(slow(many, usual) < alike * 0.8);
  CHECK(slow(most, usual) <= slow(many, usual));
  CHECK(slow(many, many) == doctest::Approx(alike)); // no more than the other
  CHECK(slow(few, usual) == alike);                  // waits no longer than on an idle device
  CHECK(slow(usual, most) == alike);                 // keeps what it gets by its demand
  CHECK(0.8 / slow(most, usual) + 0.8 / alike <= 1); // which leaves the other so much
  CHECK(slow(at_dram(0.8, 0), most) == alike);       // not known
  const std::vector<running> three{{most, 8}, {most, 8}, {usual, 8}}; // what is left over is shared
  CHECK(1.6 / slowdown(law, three, 0, false) + 0.8 / slowdown(law, three, 2, false) <= 1);
}

TEST_CASE("contention: many accesses under way mean little to one that does not wait for DRAM") {
  const contention_law law = only_shares();
  const auto gains = [&](double use) { // of what it loses
    const demand other = at_dram(0.8, l2_miss_cycles);
    const double alike = slowdown(law, {{other, 8}, {at_dram(use, 0), 8}}, 1, false);
    const double many = slowdown(law, {{other, 8}, {at_dram(use, 3000), 8}}, 1, false);
    return (alike - many) / (alike - 1);
  };
  CHECK(gains(0.8) > 0.3);
  CHECK(gains(0.1) < 0.2);
  CHECK(gains(0.1) >= 0);
  CHECK(at_dram(0, 3000).accesses_ahead() == 1);
  CHECK(at_dram(0.1, 3000).accesses_ahead() < 1.05);
  CHECK(at_dram(0.4, 3000).accesses_ahead() < at_dram(0.8, 3000).accesses_ahead());
  CHECK(at_dram(1, 2 * l2_miss_cycles).accesses_ahead() == 2);
}

TEST_CASE("contention: what makes accesses slower matters less to those that take long alone") {
  const contention_law law;
  const auto loses = [&](const demand& own) { // together they leave DRAM room
    return slowdown(law, {{at_dram(0.2, 0), 8}, {own, 8}}, 1, false) - 1;
  };
  const auto own = [](double dram, double access_cycles) {
    demand d = at_dram(dram, access_cycles);
    d.of(resource::l2) = 0.3;
    return d;
  };
  CHECK(loses(own(0.4, 500)) == loses(own(0.4, 0)));
  CHECK(loses(own(0.4, 4000)) < 0.8 * loses(own(0.4, 0)));
  CHECK(loses(own(0.01, 4000)) > 0.99 * loses(own(0.01, 0))); // long for another reason
}

TEST_CASE("contention: of several neighbours their accesses add up") {
  const contention_law law = only_shares();
  const demand own = at_dram(0.8, 4000), few = at_dram(0.3, 500), many = at_dram(0.3, 20000);
  const auto slow = [&](const demand& a, const demand& b) {
    return slowdown(law, {{a, 8}, {b, 8}, {own, 8}}, 2, false);
  };
  CHECK(slow(few, few) < slow(few, many));
  CHECK(slow(few, many) == slow(many, few));
  CHECK(slow(few, many) < slow(many, many));
}

TEST_CASE("contention: latency rises with the square of a neighbour's traffic") {
  contention_law law;
  law.l2_latency = 0;
  law.dram_latency = 0.8;
  const auto slow = [&](double traffic) {
    const std::vector<running> two{{with(resource::l2, 0.2), 8},
                                   {with(resource::dram, traffic), 8}};
    return slowdown(law, two, 0, false) - 1;
  };
  CHECK(slow(0.2) > 0.02);
  CHECK(slow(0.4) == doctest::Approx(4 * slow(0.2)));
  CHECK(slow(0.8) == doctest::Approx(16 * slow(0.2)));
  // Each neighbour has bursts of its own.
  const std::vector<running> three{
      {with(resource::l2, 0.2), 8}, {with(resource::dram, 0.2), 8}, {with(resource::dram, 0.2), 8}};
  CHECK(slowdown(law, three, 0, false) - 1 == doctest::Approx(2 * slow(0.2)));
}

TEST_CASE(
    "contention: stores that fill the queues of memory delay others more than other traffic") {
  const contention_law law;
  for (const bool steady : {false, true}) {
    demand neighbour = with(resource::dram, 0.5);
    neighbour.steady = steady;
    const auto slow = [&] {
      return slowdown(law, {{with(resource::l2, 0.2), 8}, {neighbour, 8}}, 0, false) - 1;
    };
    const double before = slow();
    neighbour.stores = 0.5;
    CHECK(slow() > 3 * before);
  }
}

TEST_CASE(
    "contention: on SMs of its own, latency matters the more, the longer both sides' warps wait") {
  const contention_law law;
  demand own = with(resource::l2, 0.2), neighbour = with(resource::dram, 0.5);
  const auto slow = [&](bool shares) {
    return slowdown(law, {{own, 8}, {neighbour, 8}}, 0, shares) - 1;
  };
  const double unknown = slow(false);
  own.waits.memory = 0.3;
  CHECK(slow(false) == doctest::Approx(unknown));
  own.waits.memory = 0.8;
  CHECK(slow(false) == doctest::Approx(1.65 * unknown));
  neighbour.waits.memory = 0.5;
  CHECK(slow(false) == doctest::Approx(1.65 * unknown));
  neighbour.waits.memory = 0.1;
  CHECK(slow(false) == doctest::Approx(0.6 * 1.65 * unknown));
  const double shared = slow(true);
  own.waits.memory = neighbour.waits.memory = 0.6;
  CHECK(slow(true) == doctest::Approx(shared));
}

TEST_CASE(
    "contention: a neighbour on a kernel's SMs does not lower the effect of other SMs' traffic") {
  const contention_law law;
  demand own = with(resource::l2, 0.2);
  own.waits.memory = 0.8;
  surroundings s;
  s.add(with(resource::dram, 0.5), 0, 1, 8, false);
  const double apart = law.slowdown(own, 8, s);
  s.add(with(resource::alu, 0.1), 1, 1, 8, false);
  CHECK(law.slowdown(own, 8, s) >= apart);
}

TEST_CASE("contention: steady traffic delays others less than traffic in bursts") {
  const contention_law law;
  demand steady = with(resource::dram, 0.5);
  steady.of(resource::l2) = 0.4;
  demand bursts = steady;
  steady.steady = true;
  const auto slow = [&](const demand& d) {
    return slowdown(law, {{with(resource::l2, 0.01), 8}, {d, 8}}, 0, false) - 1;
  };
  CHECK(slow(bursts) > 0.1);
  CHECK(slow(steady) == doctest::Approx(surroundings::steady * slow(bursts)).epsilon(0.02));
}

TEST_CASE("contention: tensor cores of a neighbour lower the clock of kernels without") {
  const contention_law law;
  demand tensor = with(resource::tensor, 0.5);
  tensor.low_clock = true;
  const demand compute = with(resource::fma, 0.5);
  demand memory = with(resource::dram, law.dram);
  const auto slow = [&](const demand& own) {
    return slowdown(law, {{tensor, 8}, {own, 8}}, 1, false);
  };
  CHECK(slow(compute) == doctest::Approx(1 + law.clock));
  CHECK(slow(tensor) == 1); // its clock is low already
  CHECK(slow(memory) < 1 + law.clock / 4);
  const std::vector<running> three{{tensor, 8}, {compute, 8}, {tensor, 8}};
  CHECK(slowdown(law, three, 1, false) == doctest::Approx(1 + law.clock)); // no lower by two
}

TEST_CASE("contention: hits are lost once the working sets exceed L2") {
  demand d = with(resource::l2, 0.45);
  d.kept = 1;
  const auto slow = [&](double part) {
    d.working_set = part * contention_law::l2_bytes;
    const std::vector<running> two{{d, 8}, {d, 8}};
    return slowdown({}, two, 0, false);
  };
  CHECK(slow(0.4) < 1.2);
  CHECK(slow(0.7) > slow(0.4) * 1.3);
  CHECK(contention_law::lost(contention_law::l2_bytes) == 0);
  CHECK(contention_law::lost(2 * contention_law::l2_bytes) == 1);
  d.kept = 0; // there is nothing to lose
  CHECK(slow(0.7) == slow(0.4));
}

TEST_CASE("contention: a kernel that loses its hits is slower even at little throughput") {
  demand d = with(resource::l2, 0.05);
  d.kept = 1;
  d.working_set = contention_law::l2_bytes;
  const std::vector<running> two{{d, 8}, {d, 8}};
  CHECK(slowdown({}, two, 0, false) == doctest::Approx(1 + contention_law::miss).epsilon(0.05));
  // Misses that take longer use less of DRAM a second: two such kernels fit beside each other.
  d.of(resource::l2) = 0.3;
  const std::vector<running> busy{{d, 8}, {d, 8}};
  CHECK(slowdown({}, busy, 0, false) < 1.1 * (1 + contention_law::miss));
}

TEST_CASE("contention: an older kernel that fills an SM keeps its pace") {
  const contention_law law;
  const std::vector<running> full{{with(resource::fp64, 0.96), 4}, {with(resource::fp64, 0.96), 4}};
  CHECK(slowdown(law, full, 0) < 1.15);
  CHECK(slowdown(law, full, 1) > 8);
  const std::vector<running> less{{with(resource::fp64, 0.7), 4}, {with(resource::fp64, 0.7), 4}};
  CHECK(slowdown(law, less, 0) == doctest::Approx(slowdown(law, less, 1)));
}

TEST_CASE("contention: a pipeline that is full serves what little others ask for") {
  const contention_law law;
  const std::vector<running> two{{with(resource::xu, 0.99), 4}, {with(resource::xu, 0.014), 8}};
  CHECK(slowdown(law, two, 1) < 1.1);
  const std::vector<running> same{{with(resource::xu, 0.99), 4}, {with(resource::xu, 0.99), 4}};
  CHECK(slowdown(law, same, 1) > 20);
}

TEST_CASE("contention: the kernel that asks for more keeps the issue slots, older or not") {
  const contention_law law;
  const demand fills = with(resource::issue, 0.93), some = with(resource::issue, 0.37);
  for (const std::size_t filling : {0u, 1u}) {
    std::vector<running> two{{some, 4}, {some, 4}};
    two[filling].takes = fills;
    CHECK(slowdown(law, two, filling) < 1.1);
    CHECK(slowdown(law, two, 1 - filling) > 3);
  }
  const std::vector<running> alike{{fills, 4}, {fills, 4}}; // neither leads
  CHECK(slowdown(law, alike, 0) == doctest::Approx(slowdown(law, alike, 1)));
  CHECK(slowdown(law, alike, 0) == doctest::Approx(2 * 0.93).epsilon(0.02));
}

TEST_CASE("contention: FP16, FP64 and tensor cores share a port, which tensor cores take first") {
  contention_law law;
  law.clock = 0;
  const demand fp64 = with(resource::fp64, 0.95);
  demand fp16 = with(resource::fp16, 0.5);
  fp16.of(resource::fp64) = 0.5; // its port
  const demand tensor = with(resource::tensor, 0.84), few = with(resource::fp64, 0.01);
  const auto slow = [&](const demand& own, const demand& other, std::size_t age) {
    std::vector<running> two{{other, 4}, {other, 4}};
    two[age].takes = own;
    return slowdown(law, two, age);
  };
  for (const std::size_t age : {0u, 1u}) { // older and younger
    CHECK(slow(tensor, fp64, age) == doctest::Approx(1));
    CHECK(slow(fp64, tensor, age) > 5);
    CHECK(slow(fp16, tensor, age) > 4);
    CHECK(slow(few, tensor, age) < 1.1); // fits beside them
  }
  CHECK(slow(fp16, fp64, 1) > 5); // the older one nearly fills it
  CHECK(slow(fp64, fp16, 0) < 1.1);
  CHECK(slow(fp64, fp16, 1) == doctest::Approx(1.45).epsilon(0.02)); // it does not
  CHECK(slow(fp16, fp64, 0) == doctest::Approx(1.45).epsilon(0.02));
  CHECK(slow(fp64, with(resource::fma, 0.95), 1) == doctest::Approx(1));
}

TEST_CASE("contention: kernels with bursts meet before their means exceed an SM") {
  const contention_law law;
  demand network = with(resource::fma, 0.45);
  network.of(resource::l2) = 0.05;
  demand probe = network;
  probe.steady = true;
  const auto slow = [&](const demand& own, const demand& other) {
    return slowdown(law, {{other, 0}, {own, 0}}, 1) - 1;
  };
  CHECK(slow(network, network) > 0.1);
  CHECK(slow(network, probe) < 0.05);
  demand compute = network; // without loads to wait for
  compute.of(resource::l2) = 0;
  CHECK(slow(compute, network) < 0.05);
  CHECK(slow(network, network) > slow(network, probe));
}

TEST_CASE("contention: warps matter among kernels that touch memory alone") {
  const contention_law law;
  demand memory = with(resource::l2, 0.01);
  const demand compute = with(resource::fp64, 0.2);
  const auto slow = [&](const demand& own, const demand& other) {
    return slowdown(law, {{other, 32}, {own, 8}}, 1);
  };
  CHECK(slow(memory, memory) > 1.3);
  CHECK(slow(memory, compute) == doctest::Approx(1));
  CHECK(slow(compute, memory) == doctest::Approx(1));
}

TEST_CASE("contention: warps of an endless kernel matter as far as its accesses wait in queues") {
  const contention_law law;
  const demand memory = with(resource::l2, 0.01);
  const auto slow = [&](double queued) {
    demand other = memory;
    other.queued = queued;
    return slowdown(law, {{other, 32}, {memory, 8}}, 1) - 1;
  };
  CHECK(slow(0) < 0.01);
  CHECK(slow(0.5) == doctest::Approx(0.5 * slow(1)).epsilon(0.05));

  // A copy: few warps get more each than many, whose accesses wait longer.
  const auto queued = [](double l2, double warps) {
    return surroundings::queued(with(resource::l2, l2), warps);
  };
  CHECK(queued(0.25, 16 * 32) == 0);
  CHECK(queued(0.7, 66 * 32) > queued(0.44, 33 * 32));
  CHECK(queued(0.85, 132 * 32) > 0.9);
  CHECK(queued(0, 132 * 32) == 1);
}

TEST_CASE(
    "contention: accesses wait behind those of an endless kernel, and where it has bursts on top") {
  const contention_law law;
  demand copy = with(resource::l2, 0.01);
  copy.steady = true;
  copy.waits.memory = 0.95;
  copy.waits.load_cycles = 1200;
  copy.queue_cycles = queue_behind(copy.waits, 1);
  CHECK(copy.queue_cycles == doctest::Approx(1200 - 290));
  demand own = with(resource::l2, 0.01);
  own.waits.memory = 0.5;
  own.waits.load_cycles = 300;
  const auto slow = [&](const demand& d) { return slowdown(law, {{copy, 32}, {d, 8}}, 1); };
  const auto of_older = [&](const demand& d) { return slowdown(law, {{d, 8}, {copy, 32}}, 0); };
  CHECK(slow(own) == doctest::Approx(1 + 0.5 * 1.2 * 910 / 300).epsilon(0.01));
  CHECK(of_older(own) == doctest::Approx(1 + 0.5 * 0.8 * 910 / 300).epsilon(0.01));
  // What waits less, or for longer accesses, loses less.
  demand slower = own;
  slower.waits.load_cycles = 3000;
  CHECK(slow(slower) == doctest::Approx(1 + 0.5 * 1.2 * 910 / 3000).epsilon(0.02));
  demand of_l1 = own; // most of its loads hit in L1
  of_l1.waits.load_cycles = 40;
  CHECK(slow(of_l1) == doctest::Approx(1 + 0.5 * 1.2 * 910 / 290).epsilon(0.01));
  CHECK(slow(with(resource::fp64, 0.2)) == doctest::Approx(1));
  // Code comes from L2 too.
  demand fetches = with(resource::issue, 0.1);
  fetches.waits.instructions = 0.2;
  copy.kept = 1;
  CHECK(slow(fetches) == doctest::Approx(1 + 0.2 * 1.2 * 910 / 290).epsilon(0.01));
  copy.kept = 0;
  // One with bursts counts by its warps, too, and one of which nothing is known by these alone.
  demand as_unknown = own;
  as_unknown.waits = {};
  const auto beside = [&](const demand& d, const demand& other) {
    return slowdown(law, {{other, 32}, {d, 8}}, 1);
  };
  demand of_graph = copy, unknown = copy;
  of_graph.steady = false;
  unknown.steady = false;
  unknown.waits = {};
  CHECK(beside(as_unknown, of_graph) > 1.1);
  CHECK(beside(own, of_graph) ==
        doctest::Approx(beside(as_unknown, of_graph) * (1 + 0.5 * 1.2 * 910 / 300)));
  unknown.queue_cycles = 0;
  CHECK(beside(own, unknown) == doctest::Approx(beside(as_unknown, unknown)));
}

TEST_CASE("contention: what a kernel issues waits for slots that kernels of graphs take") {
  const contention_law law;
  demand busy = with(resource::issue, 0.6);
  busy.waits.executing = 0.9;
  demand own = with(resource::issue, 0.05);
  own.waits.executing = 0.8;
  const auto slow = [&](double warps, bool is_older) {
    const running other{busy, warps}, me{own, 2};
    return is_older ? slowdown(law, {other, me}, 1) : slowdown(law, {me, other}, 0);
  };
  CHECK(slow(12, true) == doctest::Approx(1 + 0.8 * 0.6 / 0.4).epsilon(0.02));
  CHECK(slow(12, false) == doctest::Approx(1 + 0.8 * 0.27 / 0.73).epsilon(0.02));
  CHECK(slow(4, true) == doctest::Approx(1).epsilon(0.02)); // its warps take turns
}

TEST_CASE("contention: loads that take no longer than on an idle device make none wait") {
  warp_waits w;
  w.memory = 1;
  w.load_cycles = 290;
  CHECK(queue_behind(w, 1) == 0);
  w.load_cycles = 900;
  CHECK(queue_behind(w, 0) == 0);   // misses
  CHECK(queue_behind(w, 1) == 610); // hits
  w.memory = 0.17;                  // seldom
  CHECK(queue_behind(w, 1) == doctest::Approx(0.2 * 610));
  CHECK(queue_behind(warp_waits{}, 1) == 0);
}

TEST_CASE("contention: accesses to shared memory wait for stores that L1 cannot pass on") {
  const contention_law law;
  demand stores = with(resource::l2, 0.01);
  stores.steady = true;
  stores.waits.blocked = 0.5;
  demand own = with(resource::shared_memory, 0.1);
  own.waits.shared_memory = 0.8;
  own.waits.shared_cycles = 30;
  const double slow = slowdown(law, {{stores, 32}, {own, 4}}, 1);
  CHECK(slow == doctest::Approx(1 + 0.8 * 0.6 * 340 / 30).epsilon(0.01));
  stores.waits.blocked = 0;
  stores.waits.memory = 0.9;
  CHECK(slowdown(law, {{stores, 32}, {own, 4}}, 1) == doctest::Approx(1));
}

TEST_CASE("contention: a kernel that issues waits for slots of an endless one with many warps") {
  const contention_law law;
  demand chain = with(resource::fp64, 0.1);
  chain.of(resource::issue) = 0.2;
  chain.waits.executing = 1;
  chain.fixed_stall = 4;
  demand other = with(resource::issue, 0.4);
  other.steady = true;
  other.waits.executing = 0.2;
  other.fixed_stall = 3;
  const auto slow = [&](double warps) { return slowdown(law, {{other, warps}, {chain, 4}}, 1); };
  CHECK(slow(32) == doctest::Approx(1 / (1 - 0.4)).epsilon(0.01)); // what is left to it
  CHECK(slow(4) == doctest::Approx(1).epsilon(0.01));              // one warp fits in between
  CHECK(slowdown(law, {{chain, 4}, {other, 32}}, 0) < 1.3);        // an older one waits less
  demand busy = with(resource::issue, 0.9);
  busy.waits.executing = 1;
  busy.fixed_stall = 0.1;
  CHECK(slowdown(law, {{other, 32}, {busy, 4}}, 1) < 1.2); // it keeps the slots
}

TEST_CASE(
    "contention: beside a warp that keeps the issue slots, a single warp has the pauses alone") {
  const contention_law law;
  const demand keeps = with(resource::issue, 0.93);
  const auto slow = [&](double use, double l2, bool known = true) {
    demand own = with(resource::issue, use);
    own.of(resource::l2) = l2;
    if (known) own.waits.executing = 0.9;
    return slowdown(law, {{keeps, 4}, {own, 4}}, 1);
  };
  // It has pauses for 9% of the time, and issues in them as alone, and once as each begins.
  const double pauses = 1 - 0.977 * 0.93;
  CHECK(slow(0.5, 0) == doctest::Approx(0.5 / (pauses * (0.5 + 0.1))).epsilon(0.1));
  CHECK(slow(0.2, 0) == doctest::Approx(0.2 / (pauses * (0.2 + 0.1))).epsilon(0.1));
  // With bursts after its waits for memory it can use all of a pause, as one of unknown waits.
  CHECK(slow(0.5, 0.5) < 0.7 * slow(0.5, 0));
  CHECK(slow(0.5, 0, false) == doctest::Approx(0.5 / pauses).epsilon(0.02));
}

TEST_CASE("contention: which kernel is older matters on full SMs alone") {
  any_kernels any;
  const contention_law law = harsh();
  int differ = 0;
  int full = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<running> all = any.some(3);
    for (running& k : all)
      for (double& use : k.takes.use) use *= 0.6;
    contention_law::kernel k;
    k.takes = all[1].takes;
    law.prepare(k, all[1].warps);
    surroundings s = around(all, 1);
    const double power = law.power(k, s);
    REQUIRE(contention_law::root_8th(power) == slowdown(law, all, 1));
    s.older.fill(0.9);
    s.greatest.fill(0.9);
    s.most.fill(0.9);
    const bool same = law.power(k, s) == power;
    REQUIRE((same || contention_law::fills_sm(k, s)));
    full += contention_law::fills_sm(k, s);
    differ += !same;
  }
  CHECK(differ > 200);
  CHECK(full < 1800);
}

TEST_CASE("contention: bank conflicts delay others' accesses") {
  const contention_law law;
  demand victim = with(resource::shared_memory, 0.5);
  victim.conflict = 4;
  double last = 1;
  for (const double conflict : {1.0, 8.0, 16.0, 32.0}) {
    demand copy = with(resource::shared_memory, 0.7);
    copy.conflict = conflict;
    const std::vector<running> two{{copy, 4}, {victim, 8}};
    const double slow = slowdown(law, two, 1);
    CHECK(slow >= last);
    last = slow;
  }
  CHECK(last > 1.5);
}

TEST_CASE("contention: accesses to shared memory wait for the wavefronts that are under way") {
  const contention_law law;
  demand long_access = with(resource::shared_memory, 0.99), short_access = long_access;
  long_access.conflict = 32;
  short_access.conflict = 16;
  const std::vector<running> two{{long_access, 4}, {short_access, 4}};
  // Each waits for all of the other's: 4 warps with 32 and with 16 wavefronts.
  CHECK(slowdown(law, two, 0) == doctest::Approx(0.99 * 1.5).epsilon(0.05));
  CHECK(slowdown(law, two, 1) == doctest::Approx(0.99 * 3).epsilon(0.05));
  // A kernel with many accesses under way waits less for each one's: with many warps, or with
  // several of each, as the latency of one says. So 0.99 * 200 of its own wait for 128 of the
  // other's.
  const std::vector<running> wide{{long_access, 4}, {short_access, 32}};
  CHECK(slowdown(law, wide, 1) < 0.6 * slowdown(law, two, 1));
  std::vector<running> deep = two;
  deep[1].takes.waits.shared_cycles = 200;
  CHECK(slowdown(law, deep, 1) == doctest::Approx(0.99 + 128.0 / 200).epsilon(0.05));
  CHECK(slowdown(law, deep, 0) == doctest::Approx(0.99 * (1 + 0.99 * 200 / 128)).epsilon(0.05));
  deep[1].takes.steady = true; // an endless kernel's warps have one each
  CHECK(slowdown(law, deep, 1) == slowdown(law, two, 1));
}

TEST_CASE("contention: an FMA instruction waits for a slot or for its pipeline, not for both") {
  const contention_law law;
  demand products = with(resource::issue, 0.6), older = products;
  const double slots = slowdown(law, {{older, 4}, {products, 4}}, 1);
  products.of(resource::fma) = older.of(resource::fma) = 0.6;
  CHECK(slowdown(law, {{older, 4}, {products, 4}}, 1) == doctest::Approx(slots));
  products.of(resource::fma) = older.of(resource::fma) = 0.8; // now that is the scarcer of the two
  CHECK(slowdown(law, {{older, 4}, {products, 4}}, 1) > slots + 0.3);
}

TEST_CASE("contention: how long a warp stalls after an instruction, by the counters") {
  kernel_counters c;
  c.ipc = 2;
  c.warps_active = 8.0 / 64; // 8 warps issue 2 instructions a cycle: each one in 4 cycles
  c.waits.executing = 0.75;  // of which it is not ready to go on for 2 more
  CHECK(demand_of(c).fixed_stall == doctest::Approx(2));
  c.waits.executing = 0.2; // as counted: less than it issues
  CHECK(demand_of(c).fixed_stall == 0);
  c.waits.executing = 0; // not known
  CHECK(demand_of(c).fixed_stall == 1);
}

TEST_CASE(
    "contention: beside a warp that keeps the slots, runs of instructions wait for their turns") {
  const contention_law law;
  demand chain = with(resource::issue, 0.93);
  chain.waits.executing = 0.96;
  chain.steady = true;
  chain.fixed_stall = 0.03;
  const auto of_graph = [](double issue, double stall) {
    demand d = with(resource::issue, issue);
    d.waits.executing = 0.5;
    d.fixed_stall = stall;
    return d;
  };
  const auto slow = [&](const demand& d, double warps) {
    return slowdown(law, {{chain, 4}, {d, warps}}, 1);
  };
  // As matrix products of FP32 and of tensor cores beside fp32 of four chains: 2.4 and 7 times.
  CHECK(slow(of_graph(0.48, 0.06), 4) == doctest::Approx(2.6).epsilon(0.1));
  CHECK(slow(of_graph(0.31, 1.3), 4) == doctest::Approx(5.5).epsilon(0.1));
  CHECK(slow(of_graph(0.05, 1.3), 4) > 1.5); // although both together ask for less than there is
  CHECK(slow(of_graph(0.31, 1.3), 32) < slow(of_graph(0.31, 1.3), 4));
  // Two warps of four schedulers: each asks for twice as much of its own.
  CHECK(slow(of_graph(0.2, 0.5), 2) == doctest::Approx(slow(of_graph(0.4, 0.5), 4)));
  double before = 1;
  for (double stall = 0; stall < 2; stall += 0.1) {
    const double now = slow(of_graph(0.4, stall), 8);
    CHECK(now >= before);
    before = now;
  }
  demand unknown = of_graph(0.31, 1);
  unknown.waits = {};
  CHECK(slow(unknown, 4) < 5); // as before: all of the pauses are its own
}

TEST_CASE("contention: of two the one with longer runs of instructions keeps its pace") {
  const contention_law law;
  demand chain = with(resource::issue, 0.72); // three additions, then a stall
  chain.waits.executing = 0.96;
  chain.steady = true;
  chain.fixed_stall = 0.33;
  demand product = with(resource::issue, 0.76);
  product.waits.executing = 0.79;
  product.fixed_stall = 0.04;
  const std::vector<running> two{{chain, 4}, {product, 4}};
  CHECK(slowdown(law, two, 1) < 1.1); // measured: 1.09, and the chain 2.7
  CHECK(slowdown(law, two, 0) > 2);
  product.fixed_stall = 0.33;
  CHECK(slowdown(law, {{chain, 4}, {product, 4}}, 1) > 1.4);
}

TEST_CASE("contention: what little a kernel asks for waits for its turn at a full pipeline") {
  const contention_law law;
  const auto slow = [&](resource r, double full, double use, double memory) {
    demand chain = with(r, full);
    chain.waits.executing = 0.98;
    chain.steady = true;
    demand d = with(r, use);
    d.waits.executing = 0.4;
    d.waits.memory = memory;
    return slowdown(law, {{chain, 4}, {d, 4}}, 1);
  };
  CHECK(slow(resource::tensor, 0.84, 0.1, 0) == doctest::Approx(1.35).epsilon(0.05));
  CHECK(slow(resource::alu, 0.97, 0.02, 0) > 1.15);
  CHECK(slow(resource::xu, 0.995, 0.004, 0) > 1.2);
  CHECK(slow(resource::xu, 0.995, 0.02, 0.8) < slow(resource::xu, 0.995, 0.02, 0.1));
  CHECK(slow(resource::alu, 0.7, 0.02, 0) == doctest::Approx(1).epsilon(0.01)); // it has pauses
}

TEST_CASE("contention: hidden loads wait behind what L2 serves, and not behind DRAM") {
  const contention_law law;
  demand reads = endless_reads(350);
  demand product = product_of_hits();
  const auto slow = [&] { return slowdown(law, {{reads, 32}, {product, 4}}, 1); };
  CHECK(slow() == doctest::Approx(1 + (1.2 * 350 - 60) / (1.25 * 290)).epsilon(0.05));
  reads.kept = 0;
  CHECK(slow() == doctest::Approx(1).epsilon(0.05));
  reads.waits.blocked = 1; // as stores, which keep all others from L2
  CHECK(slow() == doctest::Approx(1 + (1.2 * 0.35 * 350 - 60) / (1.25 * 290)).epsilon(0.05));
  reads.kept = 1;
  reads.waits.blocked = 0;
  product.of(resource::l2) = 0; // it has no loads
  CHECK(slow() == doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("contention: what a kernel holds in buffers, and waits in its own queue, hides latency") {
  const contention_law law;
  const demand reads = endless_reads(350);
  demand product = product_of_hits();
  const auto lost = [&] { return slowdown(law, {{reads, 32}, {product, 4}}, 1) - 1; };
  const double without = lost();
  product.buffer_us = 1.6;
  const double usual = lost();
  CHECK(usual == doctest::Approx(1.25 * without).epsilon(0.05));
  product.buffer_us = 4 * 1.6; // more than counts
  CHECK(lost() == doctest::Approx(usual / std::sqrt(5.1 / 1.6)).epsilon(0.1));
  product.buffer_us = 0.68;
  CHECK(lost() > 1.3 * usual);
  product.buffer_us = 1.6;
  product.queue_cycles = 290;
  CHECK(lost() == doctest::Approx(usual / std::pow(2, 0.3)).epsilon(0.05));
}

TEST_CASE("contention: fetches of code wait behind what L2 serves") {
  const contention_law law;
  demand reads = endless_reads(1000);
  demand d = with(resource::issue, 0.2); // it has no data
  d.waits.executing = 0.5;
  d.waits.instructions = 0.3;
  const auto slow = [&] { return slowdown(law, {{reads, 32}, {d, 4}}, 1); };
  reads.kept = 0.5;
  CHECK(slow() == doctest::Approx(1 + 0.3 * 1.2 * 500 / 290).epsilon(0.01));
  reads.kept = 0;
  CHECK(slow() == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("contention: buffers last for as long as their kernel takes to pass as much through L2") {
  kernel_counters c;
  c.us = 20;
  c.l2_bytes = 100e6;
  CHECK(buffer_us_of(c, 50000, 100) == doctest::Approx(1)); // 5 MB at 5 MB a microsecond
  CHECK(buffer_us_of(c, 2000, 100) == 0);                   // no buffer
  c.l2_bytes = 0;
  CHECK(buffer_us_of(c, 50000, 100) == 0);
}

TEST_CASE(
    "contention: accesses of a kernel with buffers take as long as an SM has them under way") {
  kernel_counters c;
  c.us = 10;
  c.l2_bytes = 50e6;
  const double all = buffered_access_cycles(c, 200000, 100);
  CHECK(all == doctest::Approx(1755)); // 5 MB at 5 MB a microsecond: no SM has more under way
  CHECK(buffered_access_cycles(c, 50000, 100) == all);
  CHECK(buffered_access_cycles(c, 25000, 100) == doctest::Approx(all / 2));
  CHECK(buffered_access_cycles(c, 2000, 100) == 0); // no buffer
  c.waits.load_cycles = 1200;
  CHECK(demand_of(c).access_cycles == 1200);
}

TEST_CASE("contention: code that fills the caches makes a kernel fetch its own again") {
  const contention_law law;
  demand code = with(resource::issue, 0.2);
  code.steady = true;
  code.waits.instructions = 0.8;
  code.waits.executing = 0.2;
  demand d = with(resource::issue, 0.2);
  d.waits.executing = 0.5;
  d.waits.instructions = 0.1;
  CHECK(slowdown(law, {{code, 4}, {d, 4}}, 1) ==
        doctest::Approx(1 + 0.2 * 0.7 * 0.6).epsilon(0.001));
  code.waits.instructions = 0.1; // as kernels of graphs do
  CHECK(slowdown(law, {{code, 4}, {d, 4}}, 1) == doctest::Approx(1).epsilon(0.001));
}

} // namespace gsched::testing
