// SPDX-License-Identifier: Apache-2.0
#include <gsched/interference/demand.hpp>
#include <gsched/interference/l2_loss.hpp>
#include <gsched/interference/replay_law.hpp>
#include <gsched/interference/start_loss.hpp>
#include <gsched/interference/surroundings.hpp>
#include <gsched/job/program.hpp>
#include <gsched/sim/detail/blocks/block_scheduler.hpp>
#include <gsched/sim/detail/laws/kernel_load.hpp>
#include <gsched/sim/device.hpp>
#include <gsched/sim/preset.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace gsched;
using sim::kernel_load;

constexpr sm_count every_sm{132};
constexpr sm_count half_of_sms{64};

operation kernel(std::uint32_t blocks, std::uint32_t threads, double us) {
  operation op;
  op.launch.grid = {blocks, 1, 1};
  op.launch.block = {threads, 1, 1};
  op.expected = from_us(us);
  return op;
}

kernel_load load_on(sm_count sms, const operation& op, std::uint32_t per_sm,
                    const kernel_counters* counters = nullptr) {
  const sim::scaling_table t(op, every_sm, per_sm);
  return sim::load_of(op, counters, t, sms, per_sm, contention_law{}, {}, {});
}

float memory_of(const kernel_load& l) { return l.use[index(resource::l2)]; }

/// Counters of a kernel that only moves bytes.
kernel_counters moving(double dram) {
  kernel_counters c;
  c.sm_active = 1;
  c.dram = dram;
  c.l2 = dram / 2;
  c.l2_bytes = c.dram_bytes = 1e9;
  return c;
}

/// A program of equal kernels that takes as long on half of the SMs.
program chain(std::size_t n, double us, std::optional<kernel_counters> counters) {
  operation op = kernel(528, 256, us);
  op.by_sms.push_back({half_of_sms, from_us(us)});
  return {"chain", std::vector<operation>(n, op),
          std::vector<std::optional<kernel_counters>>(n, std::move(counters))};
}

std::vector<program> each_of(const std::vector<std::vector<operation>>& operations) {
  std::vector<program> graphs;
  for (const std::vector<operation>& of : operations) graphs.emplace_back("graph", of);
  return graphs;
}

/// From the start of a program's first operation to the end of its last, in microseconds.
struct span {
  double start = 0, end = 0;
  [[nodiscard]] double us() const { return end - start; }
};

/// Submits the programs at once, each to a lane of its own.
std::vector<span> spans_of(const sim::preset& p, std::vector<program> graphs,
                           const lane_options& how) {
  struct journal {
    std::array<span, 4> of{};
    static double us(time_point at) noexcept { return to_us(at.time_since_epoch()); }
    static void started(void* self, time_point at, const sim::operation_mark& m) noexcept {
      if (m.operation == 0) static_cast<journal*>(self)->of[index(m.lane)].start = us(at);
    }
    static void ended(void* self, time_point at, const sim::operation_mark& m) noexcept {
      static_cast<journal*>(self)->of[index(m.lane)].end = us(at);
    }
  } seen;
  sim::device d(p, {}, {&seen, &journal::started, &journal::ended, nullptr});
  std::vector<lane_id> lanes;
  for (std::size_t i = 0; i < graphs.size(); ++i) lanes.push_back(d.open_lane(how));
  std::uint32_t id = 0;
  for (program& g : graphs) {
    segment s;
    s.lane = lanes[id];
    d.load(g);
    s.id = segment_id{id++};
    s.program = g.id();
    s.operations = g.range(0, g.size());
    REQUIRE_FALSE(d.submit(s));
  }
  std::array<device_event, 4> events;
  for (std::size_t ended = 0; ended < graphs.size(); ended += d.poll(events)) d.wait(no_deadline);
  return {seen.of.begin(), seen.of.begin() + static_cast<std::ptrdiff_t>(graphs.size())};
}

/// The same on SMs of their own: only how long they take.
std::vector<double> times_of(const sim::preset& p, std::vector<program> graphs) {
  lane_options how;
  how.sms = half_of_sms;
  std::vector<double> us;
  for (const span& s : spans_of(p, std::move(graphs), how)) us.push_back(s.us());
  return us;
}

template <class... Graphs>
std::vector<double> times_of(const sim::preset& p, Graphs... graphs) {
  std::vector<program> them;
  (them.push_back(std::move(graphs)), ...);
  return times_of(p, std::move(them));
}

/// Without what each start costs, so that only the law of contention is left.
sim::preset without_starts() {
  sim::preset p = sim::h200();
  p.laws.replay.gap_us = p.laws.replay.start_us = 0;
  return p;
}

} // namespace

TEST_CASE("contention: throughput saturates") {
  const sim::preset p = without_starts();
  const double alone = times_of(p, chain(1, 500, moving(0.9)))[0];
  CHECK(alone == doctest::Approx(500 * p.laws.graph.scale).epsilon(0.01));
  const std::vector<double> two =
      times_of(p, chain(1, 500, moving(0.9)), chain(1, 500, moving(0.9)));
  for (const double us : two) { // about twice as long, and neither exceeds the capacity
    CHECK(us / alone > 1.8);
    CHECK(us / alone < 2.6);
  }
  const std::vector<double> apart =
      times_of(p, chain(1, 500, moving(0.2)), chain(1, 500, moving(0.2)));
  CHECK(apart[0] / alone < 1.2);
}

TEST_CASE("contention: no kernel is faster beside another, nor beside one that takes more") {
  const sim::preset p = without_starts();
  const double alone = times_of(p, chain(1, 300, moving(0.6)))[0];
  double last = alone;
  for (int tenths = 0; tenths <= 10; ++tenths) {
    const double us =
        times_of(p, chain(1, 300, moving(0.6)), chain(1, 2000, moving(0.1 * tenths)))[0];
    CHECK(us >= last);
    last = us;
  }
  CHECK(last > 1.5 * alone);
}

TEST_CASE("contention: counters count, and kernels without them are estimated") {
  const sim::preset p = without_starts();
  const auto beside = [&](std::optional<kernel_counters> c) {
    return times_of(p, chain(1, 300, c), chain(1, 2000, moving(0.7)))[0];
  };
  const double computing = beside(moving(0)), moved = beside(moving(0.8)), unknown = beside({});
  CHECK(computing < 1.01 * 300);
  CHECK(moved > 1.4 * 300);
  CHECK(unknown > computing); // its time does not depend on the SMs: it waits for memory
  CHECK(unknown != moved);
}

TEST_CASE("contention: the start of a kernel costs each other lane") {
  sim::preset p = without_starts();
  const auto time_at = [&](double waits) { // for instructions
    kernel_counters c = moving(0);
    c.waits.instructions = waits;
    c.waits.executing = 1 - waits;
    return times_of(p, chain(1, 400, c), chain(50, 4, moving(0)))[0];
  };
  warp_waits w;
  w.instructions = 0.2;
  const double each = start_loss::of(w, 400).lost_us(half_of_sms.count(), 4);
  const double none = time_at(0);
  CHECK(each > 0.5);
  CHECK(time_at(0.2) == doctest::Approx(none + 50 * each).epsilon(0.01));
  CHECK(time_at(0.1) == doctest::Approx(none + 25 * each).epsilon(0.01));
  // Without waits, by the blocks of the starting kernel.
  const auto of_blocks = [&](double start_us) {
    p.laws.replay.start_us = start_us;
    return times_of(p, chain(1, 400, moving(0)), chain(50, 4, moving(0)))[0];
  };
  CHECK(of_blocks(1) == doctest::Approx(of_blocks(0) + 50 * replay_law::starts(528)).epsilon(0.02));
  // On gaps alone: of 50 kernels, beside 0.4 of L2's throughput.
  const auto end = [&](double gap_us) {
    p.laws.replay = {gap_us, 0};
    return times_of(p, chain(1, 400, moving(0.8)), chain(50, 4, moving(0)))[1];
  };
  CHECK(end(2) - end(0) == doctest::Approx(49 * 2 * 0.4).epsilon(0.05));
}

TEST_CASE("contention: a kernel ends, however many others start meanwhile") {
  kernel_counters c = moving(0);
  c.waits.instructions = 0.9;
  c.waits.executing = 0.1;
  // Two microseconds apart, each of them would cost it three.
  CHECK(times_of(without_starts(), chain(4000, 1, moving(0)), chain(1, 200, c))[1] < 10.5 * 200);
}

TEST_CASE("contention: on shared SMs a start costs less soon after another") {
  const replay_law law;
  const double long_after = law.lost_again_us(1000, 0);
  CHECK(long_after == doctest::Approx(3.6 * law.start_us));
  CHECK(law.lost_again_us(start_loss::refill_us, 0) ==
        doctest::Approx(0.632 * long_after).epsilon(1e-3));
  CHECK(law.lost_again_us(0, 0) == 0);
  CHECK(law.lost_again_us(1000, 1) == 0);
}

TEST_CASE("contention: on shared SMs a start costs less, the busier they are") {
  // Of the starts of 50 kernels, on a kernel with so much work of its own, and of a third one.
  sim::preset p = without_starts();
  p.laws.contention = {};
  operation op = kernel(132, 256, 2000);
  const auto of_starts = [&](double own, std::optional<double> third) {
    const auto time_at = [&](double start_us) {
      p.laws.replay.start_us = start_us;
      kernel_counters c = moving(0), d = moving(0);
      c.pipes.alu = own;
      std::vector<program> graphs;
      graphs.emplace_back("busy", std::vector{op}, std::vector{std::optional(c)});
      graphs.emplace_back("small", std::vector<operation>(50, kernel(1, 32, 4)));
      if (third) {
        d.pipes.alu = *third;
        graphs.emplace_back("third", std::vector{op}, std::vector{std::optional(d)});
      }
      return spans_of(p, std::move(graphs), {})[0].us();
    };
    return time_at(1) - time_at(0);
  };
  const double idle = of_starts(0, std::nullopt);
  CHECK(idle > 49 * 3 * start_loss::refilled(4) * 0.8); // each so long after the one before
  CHECK(idle < 49 * 3);
  CHECK(of_starts(0.5, std::nullopt) == doctest::Approx((1 - 0.125) * idle).epsilon(0.03));
  CHECK(of_starts(0.25, 0.25) - of_starts(0.25, 0) < -0.05 * idle);
  CHECK(of_starts(0.5, 0.49) < 0.15 * idle); // they hide nearly all
}

TEST_CASE("load: the SMs are done with a kernel as early as its counters say") {
  kernel_counters c;
  c.us = 100;
  c.sm_active = 0.4;
  CHECK(load_on(every_sm, kernel(66, 128, 100), 16, &c).early == doctest::Approx(0.2 - 0.0085));
  CHECK(load_on(half_of_sms, kernel(66, 128, 100), 16, &c).early == doctest::Approx(0.2 - 0.0085));
  CHECK(load_on(every_sm, kernel(66, 128, 100), 16).early == kernel_load::usual_early);
}

TEST_CASE("contention: blocks of one wave end one after another, where others share their SMs") {
  sim::preset p = without_starts();
  p.laws.contention = {};
  operation whole = kernel(131, 1024, 100); // a block fills an SM
  whole.launch.registers_per_thread = 64;
  operation first = whole, then = whole; // of the other lane
  first.launch.grid = {1, 1, 1};
  first.expected = from_us(60);
  then.launch.grid = {2, 1, 1};
  const double alone = spans_of(p, each_of({{whole}}), {})[0].us();
  kernel_counters c = moving(0);
  c.us = 100;
  const auto waited_us = [&](double sm_active) { // the second block, for an SM
    std::vector<program> graphs = each_of({{first, then}, {whole}});
    c.sm_active = sm_active;
    if (sm_active > 0)
      graphs[1] = program("graph", std::vector{whole}, std::vector{std::optional(c)});
    const auto both = spans_of(p, std::move(graphs), {});
    CHECK(both[1].us() == doctest::Approx(alone).epsilon(0.02)); // it takes as long
    return both[0].end - alone - both[1].start;
  };
  const double covered = 131.0 / 132;
  const auto first_ends = [&](double early) {
    return doctest::Approx((1 - 2 * early) * alone).epsilon(0.02);
  };
  CHECK(waited_us(0) == first_ends(kernel_load::usual_early));
  CHECK(waited_us(0.8 * covered) == first_ends(0.2 - 0.0085));
  CHECK(waited_us(covered) == first_ends(0)); // all at once
  p.laws.contended = false;
  CHECK(waited_us(0.8 * covered) == first_ends(0));
}

TEST_CASE("contention: a kernel that keeps the dispatcher of blocks stops starts on other SMs") {
  const auto time_beside = [&](std::uint32_t blocks, const sim::preset& p) {
    operation many = kernel(blocks, 32, 100);
    many.by_sms.push_back({half_of_sms, from_us(100)});
    return times_of(p, program("many", {many, many, many}), chain(100, 4, moving(0)))[1];
  };
  sim::preset p = without_starts();
  const auto all = static_cast<std::uint32_t>(100 * replay_law::blocks_per_us);
  const double beside_few = time_beside(all / 2, p);
  const double stopped = time_beside(all, p) - beside_few;
  CHECK(stopped > 180); // of the 200 us of the second and third; it starts after the first
  CHECK(stopped < 205);
  p.laws.contended = false;
  CHECK(time_beside(all, p) == doctest::Approx(beside_few).epsilon(0.02));
}

TEST_CASE("contention: on other SMs as the law says, of what warps wait for") {
  const sim::preset p = without_starts();
  const auto counted = [](double memory, double blocked) {
    kernel_counters c = moving(0.4);
    c.waits.memory = memory;
    c.waits.executing = 1 - memory;
    c.waits.blocked = blocked;
    return c;
  };
  for (const double own : {0.2, 0.9})
    for (const double other : {0.2, 0.9})
      for (const double blocked : {0.0, 0.5}) {
        CAPTURE(own);
        CAPTURE(other);
        CAPTURE(blocked);
        const kernel_counters a = counted(own, 0), b = counted(other, blocked);
        demand beside = demand_of(b, 1 / p.laws.graph.scale);
        beside.stores = blocked * half_of_sms.count() / every_sm.count();
        surroundings around;
        around.add(beside, 0, 1, 32, true);
        const demand takes = demand_of(a, 1 / p.laws.graph.scale);
        const double slow = p.laws.contention.slowdown(takes, 32, around) + l2_loss::usual;
        const double alone = times_of(p, chain(1, 300, a))[0];
        CHECK(times_of(p, chain(1, 300, a), chain(1, 3000, b))[0] / alone ==
              doctest::Approx(slow).epsilon(0.01));
      }
}

TEST_CASE("contention: a full DRAM goes by the accesses under way, of loads and of buffers") {
  const sim::preset p = without_starts();
  const auto loading = [](double cycles) {
    kernel_counters c = moving(0.8);
    c.waits.memory = 0.5; // of which traffic weighs as in the mean
    c.waits.executing = 0.5;
    c.waits.load_cycles = cycles;
    return c;
  };
  const auto beside = [&](const kernel_counters& own, std::uint32_t shared_bytes, double other) {
    const auto graph = [&] {
      std::vector<operation> work(1, kernel(512, 256, 300)); // one wave
      work[0].by_sms.push_back({half_of_sms, work[0].expected});
      work[0].launch.dynamic_shared_bytes = shared_bytes;
      return program("g", work, {own});
    };
    return times_of(p, graph(), chain(1, 3000, loading(other)))[0] / times_of(p, graph())[0];
  };
  for (const double own : {500.0, 5000.0})
    for (const double other : {500.0, 5000.0}) {
      CAPTURE(own);
      CAPTURE(other);
      surroundings around;
      around.add(demand_of(loading(other)), 0, 1, 32, true);
      const demand takes = demand_of(loading(own));
      const double slow = p.laws.contention.slowdown(takes, 32, around) + l2_loss::usual;
      CHECK(beside(loading(own), 0, other) == doctest::Approx(slow).epsilon(0.01));
    }
  // Of a kernel that loads by buffers in shared memory, the counters of loads do not tell.
  kernel_counters buffered = loading(0);
  buffered.us = 300;
  CHECK(beside(buffered, 40'000, 500) < beside(buffered, 0, 500) - 0.2);
}

TEST_CASE("contention: what L2 loses follows the mean traffic of the neighbour's graph") {
  const sim::preset p = without_starts();
  kernel_counters c = moving(0.001);
  c.waits.executing = 1;
  const auto slow = [&](double dram, std::size_t others) {
    std::vector<operation> work(1 + others, kernel(528, 256, 400));
    std::vector<std::optional<kernel_counters>> counters(1 + others, moving(0));
    counters[0] = moving(dram);
    for (operation& op : work) op.by_sms.push_back({half_of_sms, op.expected});
    const double beside = times_of(p, chain(1, 300, c), program("g", work, counters))[0];
    return beside / times_of(p, chain(1, 300, c))[0] - 1;
  };
  CHECK(slow(0, 0) < 0.0005);
  CHECK(std::abs(slow(0.06, 0) - l2_loss::usual) < 0.002);
  CHECK(std::abs(slow(0.06, 3) - l2_loss::usual * 0.06 / 4 / l2_loss::stream) < 0.002);
}

TEST_CASE("contention: kernels share the dispatcher, the older ones first") {
  const sim::preset p = without_starts();
  const auto beside = [&](double use, double own_use) {
    const auto with = [&](double part, double us) {
      operation op =
          kernel(static_cast<std::uint32_t>(part * us * replay_law::blocks_per_us), 64, us);
      op.by_sms.push_back({half_of_sms, from_us(us)});
      return program("g", {op}, {moving(0)});
    };
    return times_of(p, with(use, 1000), with(own_use, 200))[1] / (200 * p.laws.graph.scale);
  };
  CHECK(beside(0.2, 0.6) == doctest::Approx(1).epsilon(0.01)); // there is room for both
  CHECK(beside(0.6, 0.6) == doctest::Approx(0.6 / 0.4).epsilon(0.05));
}

TEST_CASE("contention: beside many blocks of one warp kernels on other SMs start late") {
  const sim::preset p = without_starts();
  const auto time_beside = [&](std::uint32_t threads) {
    operation many =
        kernel(static_cast<std::uint32_t>(0.85 * 600 * replay_law::blocks_per_us), threads, 600);
    many.by_sms.push_back({half_of_sms, from_us(600)});
    return times_of(p, program("many", {many}, {moving(0)}), chain(51, 4, moving(0)))[1];
  };
  const double late = replay_law::late_us(0.85, 1, 0.85 * replay_law::blocks_per_us / 64);
  CHECK(late > 1);
  CHECK(time_beside(32) - time_beside(64) == doctest::Approx(50 * late).epsilon(0.03));
}

TEST_CASE("contention: many lanes of short kernels end") {
  sim::preset p = sim::h200();
  p.laws.replay.start_us = 20; // far more than a kernel takes
  std::vector<program> graphs;
  for (int i = 0; i < 2; ++i) graphs.push_back(chain(20, 3, moving(0.1)));
  for (const double us : times_of(p, std::move(graphs))) CHECK(us < 1e5);
}

TEST_CASE("load: fewer blocks are faster each, and slower together") {
  std::mt19937_64 random(7);
  const auto uniform = [&](double from, double to) {
    return static_cast<float>(std::uniform_real_distribution<double>(from, to)(random));
  };
  for (int i = 0; i < 10000; ++i) {
    kernel_load l;
    l.warps = uniform(1, 32);
    l.solo_warps = l.warps * uniform(1, 64 / l.warps);
    l.fixed = uniform(0, 0.9);
    l.bound = uniform(0, 0.95);
    CHECK(l.stretch(l.solo_warps, 1, 7) == doctest::Approx(1));
    const float part = uniform(0.01, 1);
    const float stretch = l.stretch(part * l.solo_warps, part, 7);
    REQUIRE(stretch <= 1.0001f);
    REQUIRE(stretch >= part * 0.9999f);
    REQUIRE(stretch >= l.stretch(part * l.solo_warps, part * 0.9f, 7)); // fewer on the device
  }
}

TEST_CASE("load: what memory limits loses nothing by fewer blocks, what computes does") {
  const operation op = kernel(1056, 256, 100);
  const kernel_counters streams = moving(0.8), computes = moving(0);
  const kernel_load bound = load_on(every_sm, op, 8, &streams);
  CHECK(bound.bound == doctest::Approx(0.95));
  CHECK(bound.stretch(bound.solo_warps / 2, 0.5f, 7) == doctest::Approx(0.5).epsilon(0.03));
  const kernel_load free = load_on(every_sm, op, 8, &computes);
  CHECK(free.bound == 0);
  CHECK(free.stretch(free.solo_warps / 2, 0.5f, 7) > 0.5);
  CHECK(load_on(every_sm, op, 8).bound == 0); // not known
}

TEST_CASE("load: a kernel alone takes the measured time, also where memory limits its last wave") {
  for (const double dram : {0.0, 0.4, 0.8})
    for (const std::uint32_t blocks : {100u, 528u, 1056u, 1200u, 2000u, 5000u}) {
      const sim::preset p = sim::h200();
      const double us = 100 * p.laws.graph.scale;
      std::vector<program> graphs;
      graphs.emplace_back("graph", std::vector{kernel(blocks, 256, 100)},
                          std::vector{std::optional(moving(dram))});
      CHECK(spans_of(p, std::move(graphs), {})[0].us() == doctest::Approx(us).epsilon(1e-4));
    }
}

TEST_CASE("load: what scales needs no memory, what does not scale does, if it has the warps") {
  operation scaling = kernel(6272, 128, 100);
  scaling.by_sms.push_back({sm_count{66}, from_us(198)});
  operation flat = kernel(6272, 128, 100);
  flat.by_sms.push_back({sm_count{66}, from_us(101)});
  operation lonely = kernel(40, 32, 100);
  lonely.by_sms.push_back({sm_count{66}, from_us(100)});
  CHECK(memory_of(load_on(every_sm, scaling, 16)) < 0.05f);
  CHECK(memory_of(load_on(every_sm, flat, 16)) > 0.8f);
  CHECK(memory_of(load_on(every_sm, lonely, 16)) < 0.05f);
}

TEST_CASE("load: the same bytes over a longer time are less throughput, with counters or without") {
  operation op = kernel(6272, 128, 100);
  op.by_sms.push_back({sm_count{33}, from_us(200)});
  op.by_sms.push_back({sm_count{66}, from_us(105)});
  kernel_counters c = moving(0.6);
  c.pipes.fma = 0.2;
  for (const kernel_counters* const counters : {static_cast<kernel_counters*>(nullptr), &c}) {
    const kernel_load whole = load_on(every_sm, op, 16, counters);
    const kernel_load part = load_on(sm_count{33}, op, 16, counters);
    CHECK(memory_of(whole) > 0);
    CHECK(memory_of(part) == doctest::Approx(memory_of(whole) / 2));
  }
  // A quarter of the SMs does the same instructions in twice the time.
  const auto fma_on = [&](sm_count sms) {
    return load_on(sms, op, 16, &c).use[index(resource::fma)];
  };
  CHECK(fma_on(every_sm) == doctest::Approx(0.2));
  CHECK(fma_on(sm_count{33}) == doctest::Approx(0.4));
}

TEST_CASE("load: what is estimated counts as steady") {
  const operation op = kernel(6272, 128, 100);
  const kernel_counters c = moving(0.6);
  CHECK(load_on(every_sm, op, 16).steady);
  CHECK(!load_on(every_sm, op, 16, &c).steady);
}

TEST_CASE("load: warps are those of the blocks that an SM holds at once") {
  const operation few = kernel(100, 256, 50);
  const operation many = kernel(10000, 256, 50);
  CHECK(load_on(every_sm, few, 8).solo_warps == 8);
  CHECK(load_on(sm_count{50}, few, 8).solo_warps == 16);
  CHECK(load_on(every_sm, many, 8).solo_warps == 64);
}

TEST_CASE("load: within its bounds for random launches and counters") {
  kernel_counters most = moving(1);
  most.us = 1e6;
  most.ipc = 4;
  most.shared_memory = most.l1 = 1;
  for (const std::uint32_t blocks : {1u, 100u, 100000u})
    for (const std::uint32_t threads : {1u, 1024u})
      for (const double us : {0.0, 0.5, 3.0, 5000.0})
        for (const std::uint32_t sms : {0u, 1u, 64u, 132u, 1000u})
          for (const kernel_counters* const c : {static_cast<kernel_counters*>(nullptr), &most}) {
            const kernel_load k = load_on(sm_count{sms}, kernel(blocks, threads, us), 2, c);
            for (const float use : k.use) REQUIRE((use >= 0 && use <= 1));
            REQUIRE(k.fixed >= 0);
            REQUIRE(k.fixed <= 1);
            REQUIRE(k.warps >= 1);
            REQUIRE(k.solo_warps >= k.warps);
          }
  operation copy;
  copy.kind = operation_kind::memcpy;
  copy.expected = from_us(10);
  CHECK(load_on(every_sm, copy, 0, &most).use == kernel_load{}.use);
  CHECK(load_on(every_sm, copy, 0).fixed == 1);
}
