// SPDX-License-Identifier: Apache-2.0
#include "occupancy/launches.hpp"

#include <gsched/occupancy/per_sm_accountant.hpp>

#include <gsched/occupancy/footprint.hpp>
#include <occupancy/accountant_workload.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

using namespace gsched;
using namespace gsched::testing;
using gsched::test::apply;
using gsched::test::call;
using gsched::test::workload;

namespace {

/// Counts everything on each call, from the calls of a correct GPU.
class recount {
public:
  explicit recount(std::uint64_t overshoot) : overshoot_(overshoot) {}

  void take(const call& c) {
    entry& e = segments_[c.segment];
    switch (c.what) {
    case call::kind::charge:
      e.asked = c.asked;
      e.running = c.asked.widest;
      e.behind = c.behind;
      break;
    case call::kind::release: {
      const std::optional<segment_id> before = e.behind;
      segments_.erase(c.segment);
      for (auto& [id, other] : segments_)
        if (other.behind == c.segment) other.behind = before;
      break;
    }
    case call::kind::started:
      e.behind.reset();
      if (e.starts == 0 || e.operation != c.operation) {
        e.operation = c.operation;
        e.running = c.demand;
        e.begun = 0;
      }
      e.begun += c.blocks;
      e.starts += c.blocks;
      e.on[c.sm] += c.blocks;
      break;
    case call::kind::ended:
      e.on[c.sm] -= c.blocks;
      e.ends += c.blocks;
      break;
    }
  }

  [[nodiscard]] sm_usage usage(std::uint32_t sm) const {
    sm_usage u;
    for (const auto& [id, e] : segments_) {
      const auto at = e.on.find(sm);
      const auto n = at == e.on.end() ? 0u : static_cast<std::uint32_t>(at->second);
      u.blocks += n;
      u.threads += n * e.running.threads;
      u.registers += n * e.running.registers;
      u.shared_bytes += n * e.running.shared_bytes;
    }
    return u;
  }

  [[nodiscard]] std::uint64_t resident() const {
    std::uint64_t n = 0;
    for (const auto& [id, e] : segments_) n += e.starts - e.ends;
    return n;
  }
  [[nodiscard]] std::uint64_t waiting() const {
    std::uint64_t n = 0;
    for (const auto& [id, e] : segments_) n += waits(e);
    return n;
  }

  /// For each resource: the demand, and its waiting part, in SMs.
  struct sums {
    std::array<double, 4> load{};
    std::array<double, 4> waiting{};
  };
  [[nodiscard]] sums sum() const {
    sums s;
    for (const auto& [id, e] : segments_) {
      const bool between = e.starts == e.ends && (e.starts == 0 || e.begun == e.running.blocks);
      const kernel_demand& k = between ? e.asked.widest : e.running;
      if (k.blocks == 0) continue;
      std::array<double, 4> share{1.0 / hopper.max_blocks, 1.0 * k.threads / hopper.max_threads,
                                  1.0 * k.registers / hopper.registers,
                                  1.0 * k.shared_bytes / hopper.shared_bytes};
      auto& most = *std::max_element(share.begin(), share.end());
      most = std::max(most, 1.0 / k.max_blocks_per_sm);
      for (std::size_t r = 0; r < 4; ++r) {
        const auto w = static_cast<double>(waits(e));
        s.waiting[r] += share[r] * w;
        s.load[r] += share[r] * (w + static_cast<double>(e.starts - e.ends));
      }
    }
    return s;
  }
  [[nodiscard]] double load() const {
    const sums s = sum();
    return *std::max_element(s.load.begin(), s.load.end()) / few.count();
  }
  /// The distance of the closest resource from its limit, in blocks; negative: no room.
  [[nodiscard]] double margin() const {
    const sums s = sum();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < 4; ++r) {
      const double excess = s.load[r] - few.count();
      const double mean = s.waiting[r] > 0 ? static_cast<double>(waiting()) / s.waiting[r] : 1e9;
      const double beyond = s.waiting[r] > 0 ? excess * mean : 0.0;
      least =
          std::min(least, excess < 0 ? -excess * 1e3 : static_cast<double>(overshoot_) - beyond);
    }
    return least;
  }

private:
  struct entry {
    footprint asked{};
    kernel_demand running{};
    std::optional<segment_id> behind{};
    std::uint32_t operation = 0;
    std::uint64_t begun = 0; ///< of the running kernel
    std::uint64_t starts = 0;
    std::uint64_t ends = 0;
    std::map<std::uint32_t, std::uint64_t> on{};
  };

  [[nodiscard]] std::uint64_t waits(const entry& e) const {
    const auto before = e.behind ? segments_.find(*e.behind) : segments_.end();
    if (before != segments_.end()) {
      const entry& b = before->second;
      if (b.starts == 0 || b.starts != b.asked.blocks || b.ends != b.starts) return 0;
    }
    const std::uint64_t to_come = e.asked.blocks - e.starts;
    const bool between = e.starts == e.ends && (e.starts == 0 || e.begun == e.running.blocks);
    return between ? std::min(e.asked.widest.blocks, to_come) : e.running.blocks - e.begun;
  }

  std::uint64_t overshoot_;
  std::map<segment_id, entry> segments_;
};

footprint of_blocks(std::uint32_t blocks) { // an SM holds two
  operation op;
  op.launch.grid.x = blocks;
  op.launch.block.x = 1024;
  op.launch.registers_per_thread = 16;
  return footprint_of(hopper, few, op);
}

per_sm_accountant with_overshoot(std::uint64_t blocks) {
  return {hopper, few, {.max_outstanding = 16, .overshoot_blocks = blocks}};
}

constexpr segment_id one{1};

} // namespace

TEST_CASE("agrees with counting everything anew, over random workloads") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const std::uint64_t overshoot = seed % 3 * 10;
    workload w(seed);
    per_sm_accountant a = with_overshoot(overshoot);
    recount model(overshoot);
    for (int i = 0; i < 600; ++i) {
      const bool charge = w.running() == 0 || (w.below(3) == 0 && a.outstanding() < 16);
      const call c = charge ? w.draw_charge() : w.draw_progress();
      apply(a, c);
      model.take(c);
      REQUIRE(a.resident_blocks() == model.resident());
      REQUIRE(a.waiting_blocks() == model.waiting());
      REQUIRE(a.load() == doctest::Approx(model.load()).epsilon(1e-4));
      for (std::uint32_t sm = 0; sm < few.count(); ++sm) REQUIRE(a.usage(sm) == model.usage(sm));
      const double margin = model.margin();
      if (margin > 0.1) REQUIRE((a.has_room() || a.outstanding() == 16));
      if (margin < -0.1) REQUIRE_FALSE(a.has_room());
    }
    CHECK(a.violations() == accountant_violations{});
  }
}

TEST_CASE("where groups end on other SMs the totals stay exact and no SM goes below zero") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    workload w(seed, few, true);
    per_sm_accountant a = with_overshoot(100);
    recount model(100);
    for (int i = 0; i < 600; ++i) {
      const call c = w.running() == 0 || (w.below(4) == 0 && a.has_room()) ? w.draw_charge()
                                                                           : w.draw_progress();
      apply(a, c);
      model.take(c);
      std::uint64_t blocks = 0;
      for (std::uint32_t sm = 0; sm < few.count(); ++sm) {
        REQUIRE(a.usage(sm).blocks <= a.resident_blocks());
        REQUIRE((a.usage(sm).blocks == 0) == (a.usage(sm).threads == 0));
        blocks += a.usage(sm).blocks;
      }
      REQUIRE(blocks == model.resident());
    }
    CHECK(a.violations() == accountant_violations{});
  }
}

TEST_CASE("the overshoot is B blocks beyond the full GPU") {
  for (const std::uint64_t b : {0u, 1u, 5u}) {
    per_sm_accountant a = with_overshoot(b);
    a.charge(one, of_blocks(8)); // fills it
    std::uint64_t beyond = 0;
    while (a.has_room()) a.charge(segment_id{10 + beyond++}, of_blocks(1));
    CHECK(beyond == b);
  }
  per_sm_accountant a = with_overshoot(3);
  a.charge(one, of_blocks(8));
  CHECK(a.admits(of_blocks(3)));
  CHECK_FALSE(a.admits(of_blocks(4)));
}

TEST_CASE("placing blocks does not make room, their ends do") {
  per_sm_accountant a = with_overshoot(0);
  const footprint f = of_blocks(8);
  a.charge(one, f);
  CHECK_FALSE(a.has_room());
  a.started(one, 0, f.widest, 2, 8);
  CHECK_FALSE(a.has_room());
  CHECK(a.usage(2).blocks == 8);
  CHECK(a.usage(2).threads == 8 * 1024);
  CHECK(a.waiting_blocks() == 0);
  a.ended(one, 0, 2, 8);
  CHECK(a.has_room());
  CHECK(a.usage(2) == sm_usage{});
  a.release(one);
  CHECK(a.violations() == accountant_violations{});
}

TEST_CASE("what is queued behind a segment asks for nothing until that one is over") {
  constexpr segment_id two{2};
  constexpr segment_id three{3};
  per_sm_accountant a = with_overshoot(0);
  const footprint f = of_blocks(8); // fills it
  a.charge(one, f);
  a.charge(two, f, one);
  a.charge(three, f, two);
  CHECK(a.waiting_blocks() == 8);
  a.started(one, 0, f.widest, 0, 8);
  a.ended(one, 0, 0, 7);
  CHECK(a.waiting_blocks() == 0);
  CHECK(a.has_room()); // one block of the first is left, and the next cannot start before its end
  SUBCASE("all its blocks have ended") {
    a.ended(one, 0, 0, 1);
    CHECK(a.waiting_blocks() == 8);
    CHECK_FALSE(a.has_room());
    a.release(one);
    CHECK(a.waiting_blocks() == 8);
    CHECK(a.violations() == accountant_violations{});
  }
  SUBCASE("it is released") {
    a.release(one);
    CHECK(a.waiting_blocks() == 8);
  }
  SUBCASE("the next reports a start") {
    a.started(two, 0, f.widest, 1, 2);
    CHECK(a.waiting_blocks() == 6);
  }
  SUBCASE("the next is taken back: the one behind it is next") {
    a.release(two);
    CHECK(a.waiting_blocks() == 0);
    a.ended(one, 0, 0, 1);
    CHECK(a.waiting_blocks() == 8);
  }
  for (const segment_id s : {one, two, three})
    if (a.outstanding() > 0) a.release(s);
  CHECK(a.outstanding() == 0);
  CHECK(a.load() == 0.0);
}

TEST_CASE("the binding resource counts as full though a remainder is free") {
  operation op; // three blocks an SM, which leave 13% of the registers
  op.launch.grid.x = 12;
  op.launch.block.x = 128;
  op.launch.registers_per_thread = 144;
  const footprint f = footprint_of(hopper, few, op);
  REQUIRE(f.widest.max_blocks_per_sm == 3);
  per_sm_accountant a = with_overshoot(0);
  a.charge(one, f);
  CHECK(a.load() == doctest::Approx(1.0));
  CHECK_FALSE(a.has_room());
}

TEST_CASE("between two kernels the next is expected, no wider than what is left") {
  const program p("p", [] {
    std::vector<operation> ops(3);
    for (operation& op : ops) {
      op.launch.block.x = 1024;
      op.launch.registers_per_thread = 16;
    }
    ops[0].launch.grid.x = 2;
    ops[1].launch.grid.x = 6;
    ops[2].launch.grid.x = 1;
    return ops;
  }());
  const program_footprint pf(hopper, few, p);
  per_sm_accountant a = with_overshoot(0);
  a.charge(one, pf.range(0, 3));
  CHECK(a.waiting_blocks() == 6);
  a.started(one, 0, pf.kernel(0), 0, 2);
  CHECK(a.waiting_blocks() == 0);
  a.ended(one, 0, 0, 2);
  CHECK(a.waiting_blocks() == 6);
  a.started(one, 1, pf.kernel(1), 0, 6);
  a.ended(one, 1, 0, 6);
  CHECK(a.waiting_blocks() == 1);
  a.started(one, 2, pf.kernel(2), 0, 1);
  a.ended(one, 2, 0, 1);
  CHECK(a.load() == 0.0);
  a.release(one);
  CHECK(a.violations() == accountant_violations{});
}

TEST_CASE("an end that overtakes its start is held until the start comes") {
  per_sm_accountant a = with_overshoot(0);
  const footprint f = of_blocks(40);
  a.charge(one, f);
  a.ended(one, 0, 0, 16);
  CHECK(a.violations() == accountant_violations{});
  CHECK(a.resident_blocks() == 0);
  a.started(one, 0, f.widest, 0, 16);
  CHECK(a.resident_blocks() == 0);
  CHECK(a.waiting_blocks() == 24);
  a.started(one, 0, f.widest, 1, 16);
  CHECK(a.resident_blocks() == 16);
  a.ended(one, 0, 1, 16);
  a.started(one, 0, f.widest, 1, 8);
  a.ended(one, 0, 1, 8);
  a.release(one);
  CHECK(a.violations() == accountant_violations{});
}

TEST_CASE("reports that contradict the account are counted, block by block") {
  per_sm_accountant a = with_overshoot(0);
  const footprint f = of_blocks(3);
  a.charge(one, f);
  SUBCASE("an SM or a number of blocks that cannot be") {
    a.started(one, 0, f.widest, few.count(), 1);
    a.started(one, 0, f.widest, 0, 0);
    a.started(one, 0, f.widest, 0, 17);
    a.ended(one, 0, few.count(), 1);
    CHECK(a.violations().bad_report == 4);
    CHECK(a.resident_blocks() == 0);
  }
  SUBCASE("more starts than blocks") {
    a.started(one, 0, f.widest, 0, 5);
    CHECK(a.violations().excess_starts == 2);
    CHECK(a.resident_blocks() == 3);
    a.started(one, 0, f.widest, 0, 1);
    CHECK(a.violations().excess_starts == 3);
    a.ended(one, 0, 0, 3);
    CHECK(a.violations().total() == 3);
  }
  SUBCASE("more ends than blocks") {
    a.started(one, 0, f.widest, 0, 3);
    a.ended(one, 0, 0, 5);
    CHECK(a.violations().excess_ends == 2);
    a.ended(one, 0, 0, 1);
    CHECK(a.violations().excess_ends == 3);
    CHECK(a.load() == 0.0);
  }
  SUBCASE("ends without starts are counted at the latest when the segment ends") {
    a.ended(one, 0, 0, 3);
    CHECK(a.violations().total() == 0);
    a.release(one);
    CHECK(a.violations().excess_ends == 3);
  }
  SUBCASE("starts without ends are returned when the segment ends") {
    a.started(one, 0, f.widest, 0, 2);
    a.release(one);
    CHECK(a.violations().lost_ends == 2);
    CHECK(a.violations().lost_starts == 1);
    CHECK(a.violations().total() == 3);
    CHECK(a.usage(0) == sm_usage{});
    CHECK(a.load() == 0.0);
  }
}

TEST_CASE("a kernel that starts closes the one before it") {
  const program p("p", [] {
    std::vector<operation> ops(2);
    for (operation& op : ops) {
      op.launch.grid.x = 4;
      op.launch.block.x = 1024;
    }
    return ops;
  }());
  const program_footprint pf(hopper, few, p);
  per_sm_accountant a = with_overshoot(0);
  a.charge(one, pf.range(0, 2));
  a.started(one, 0, pf.kernel(0), 0, 4);
  a.ended(one, 0, 0, 1);
  a.started(one, 1, pf.kernel(1), 1, 4);
  CHECK(a.violations().lost_ends == 3);
  CHECK(a.usage(0) == sm_usage{});
  a.ended(one, 0, 0, 3); // after all
  a.started(one, 0, pf.kernel(0), 0, 1);
  CHECK(a.violations().late_reports == 4);
  CHECK(a.resident_blocks() == 4);
  a.ended(one, 1, 1, 4);
  a.release(one);
  CHECK(a.violations().total() == 7);
}

TEST_CASE("grids beyond all measure neither overflow nor stick") {
  per_sm_accountant a(hopper, few, {.max_outstanding = accountant_options::most_outstanding});
  operation op;
  op.launch.grid = {0x7fffffff, 65535, 65535};
  op.launch.block.x = 1024;
  const footprint f = footprint_of(hopper, few, op);
  for (std::uint64_t i = 0; i < accountant_options::most_outstanding; ++i) {
    const double before = a.load();
    a.charge(segment_id{i}, f);
    REQUIRE(a.load() > before);
  }
  for (std::uint64_t i = 0; i < accountant_options::most_outstanding; ++i) {
    a.started(segment_id{i}, 0, f.widest, 0, 16);
    a.ended(segment_id{i}, 0, 0, 16);
    a.release(segment_id{i});
  }
  CHECK(a.load() == 0.0);
  CHECK(a.waiting_blocks() == 0);
}
