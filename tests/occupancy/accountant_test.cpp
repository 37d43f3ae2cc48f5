// SPDX-License-Identifier: Apache-2.0
// One suite for all accountants, one case for each clause of the concept.
#include "allocations.hpp"
#include "occupancy/launches.hpp"

#include <gsched/occupancy/accountant.hpp>

#include <gsched/core/error.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/occupancy/chosen_accountant.hpp>
#include <gsched/occupancy/footprint.hpp>
#include <gsched/occupancy/per_sm_accountant.hpp>
#include <occupancy/accountant_workload.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

using namespace gsched;
using namespace gsched::testing;
using gsched::test::apply;
using gsched::test::call;
using gsched::test::workload;

namespace {

/// chosen_accountant, set to count blocks.
struct chosen_by_blocks : chosen_accountant {
  chosen_by_blocks(const architecture_limits& l, sm_count sms, const accountant_options& o = {})
      : chosen_accountant(l, sms, o, account_of::blocks) {}
};

using all_accountants =
    std::tuple<aggregate_accountant, per_sm_accountant, chosen_accountant, chosen_by_blocks>;

accountant_options tight(std::size_t slots = 16) {
  return {.max_outstanding = slots,
          .overshoot_blocks = 0,
          .overshoot_fill = 0.0,
          .overshoot_time = duration::zero()};
}

/// A kernel of blocks of 1024 threads, of which an SM holds two.
footprint wide(std::uint32_t blocks, sm_count sms = few) {
  operation op;
  op.launch.grid.x = blocks;
  op.launch.block.x = 1024;
  op.launch.registers_per_thread = 16;
  op.expected = from_us(100);
  return footprint_of(hopper, sms, op);
}

/// Runs a random workload, with `see` called before and after each call.
template <class A, class See>
void run(A& a, workload& w, int steps, See&& see) {
  for (int i = 0; i < steps; ++i) {
    if (w.running() == 0 || (w.below(4) == 0 && a.has_room())) {
      const call c = w.draw_charge();
      see(a, c, [&] { apply(a, c); });
    } else {
      const call c = w.below(40) == 0 ? w.draw_release() : w.draw_progress();
      see(a, c, [&] { apply(a, c); });
    }
  }
}

} // namespace

TEST_CASE_TEMPLATE_DEFINE("C1: when all is released, the account is exactly that of a new one", A,
                          conservation) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    workload w(seed, few, seed % 2 == 1);
    A a(hopper, few, tight(8));
    run(a, w, 500, [&](A&, const call&, auto&& make) {
      make();
      for (int i = 0; i < 2; ++i)
        if (w.below(3) == 0) apply(a, w.draw_nonsense());
    });
    CHECK(a.violations().total() > 0);
    while (w.running() > 0) apply(a, w.draw_release());
    REQUIRE(a.outstanding() == 0);
    REQUIRE(a.load() == 0.0);
    if constexpr (std::is_same_v<A, per_sm_accountant>) {
      REQUIRE(a.resident_blocks() == 0);
      REQUIRE(a.waiting_blocks() == 0);
      for (std::uint32_t sm = 0; sm < few.count(); ++sm) REQUIRE(a.usage(sm) == sm_usage{});
    } else if constexpr (std::is_same_v<A, aggregate_accountant>) {
      REQUIRE(a.queued() == duration::zero());
    }
    // It continues to answer like a new one.
    A fresh(hopper, few, tight(8));
    workload v(seed + 1000);
    run(fresh, v, 200, [&](A&, const call& c, auto&& make) {
      make();
      apply(a, c);
      REQUIRE(a.load() == fresh.load());
      REQUIRE(a.has_room() == fresh.has_room());
    });
  }
}
TEST_CASE_TEMPLATE_APPLY(conservation, all_accountants);

TEST_CASE_TEMPLATE_DEFINE("C2: with nothing outstanding anything may go", A, progress) {
  A a(hopper, few, tight(1));
  for (int i = 0; i < 3; ++i) {
    CHECK(a.has_room());
    CHECK(a.admits(wide(1'000'000)));
    CHECK(a.admits(footprint{}));
    a.charge(segment_id{7}, wide(1'000'000));
    CHECK_FALSE(a.has_room());
    CHECK_FALSE(a.admits(footprint{}));
    a.release(segment_id{7});
  }
}
TEST_CASE_TEMPLATE_APPLY(progress, all_accountants);

TEST_CASE_TEMPLATE_DEFINE("C3: what is admitted has room, C4: charging never makes room, releasing "
                          "never takes it",
                          A, monotone) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    workload w(seed);
    accountant_options o = tight(12);
    o.overshoot_blocks = seed % 4 * 8;
    o.overshoot_fill = static_cast<double>(seed % 3) / 4;
    o.overshoot_time = from_us(static_cast<double>(seed % 5) * 20);
    A a(hopper, few, o);
    for (int i = 0; i < 400; ++i) {
      const bool had_room = a.has_room();
      if (w.running() == 0 || w.below(3) == 0) {
        const call c = w.draw_charge();
        if (a.admits(c.asked)) REQUIRE(had_room);
        if (a.outstanding() == o.max_outstanding) {
          w.forget_last();
          continue;
        }
        apply(a, c);
        if (a.has_room()) REQUIRE(had_room);
      } else {
        const call c = w.below(10) == 0 ? w.draw_release() : w.draw_progress();
        apply(a, c);
        if (c.what == call::kind::release && !c.followed && had_room) REQUIRE(a.has_room());
      }
      REQUIRE(a.load() >= 0.0);
    }
  }
}
TEST_CASE_TEMPLATE_APPLY(monotone, all_accountants);

TEST_CASE_TEMPLATE_DEFINE("C5: a GPU that behaves causes no violations", A, honest) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    workload w(seed, few, seed % 2 == 1);
    A a(hopper, few, tight());
    for (int i = 0; i < 1000; ++i) {
      if (w.running() == 0 || (w.below(4) == 0 && a.has_room())) {
        apply(a, w.draw_charge());
      } else {
        apply(a, w.draw_progress());
      }
    }
    CHECK(a.violations() == accountant_violations{});
  }
}
TEST_CASE_TEMPLATE_APPLY(honest, all_accountants);

TEST_CASE_TEMPLATE_DEFINE("C5: what contradicts the account is counted and changes nothing", A,
                          dishonest) {
  A a(hopper, few, tight(2));
  a.charge(segment_id{1}, wide(3));
  const double load = a.load();
  const kernel_demand k = wide(3).widest;

  a.charge(segment_id{1}, wide(8));
  CHECK(a.violations().duplicate_segment == 1);
  a.release(segment_id{2});
  CHECK(a.violations().unknown_segment == 1);
  a.started(segment_id{2}, 0, k, 0, 1);
  a.ended(segment_id{2}, 0, 0, 1);
  CHECK(a.violations().unknown_segment == 3);
  CHECK(a.load() == load);
  CHECK(a.outstanding() == 1);

  a.charge(segment_id{2}, wide(1));
  const double both = a.load();
  a.charge(segment_id{3}, wide(1));
  CHECK(a.violations().no_slot == 1);
  CHECK(a.load() == both);
  CHECK(a.outstanding() == 2);
  CHECK(a.violations().total() == 5);
  a.release(segment_id{1});
  a.release(segment_id{1});
  CHECK(a.violations().unknown_segment == 4);
  a.release(segment_id{2});
  CHECK(a.load() == 0.0);
}
TEST_CASE_TEMPLATE_APPLY(dishonest, all_accountants);

TEST_CASE_TEMPLATE_DEFINE("C6: there is room until the GPU is full, and none when it is", A,
                          saturation) {
  A a(hopper, few, tight());
  for (std::uint64_t i = 0; i < 8; ++i) { // eight blocks fill four SMs
    CHECK(a.has_room());
    CHECK(a.admits(wide(1)));
    a.charge(segment_id{i}, wide(1));
    CHECK(a.load() == doctest::Approx(static_cast<double>(i + 1) / 8));
  }
  CHECK_FALSE(a.has_room());
  CHECK_FALSE(a.admits(wide(1)));
  a.release(segment_id{5});
  CHECK(a.has_room());
  CHECK(a.admits(wide(1)));
  CHECK_FALSE(a.admits(wide(2))); // it would exceed the GPU
}
TEST_CASE_TEMPLATE_APPLY(saturation, all_accountants);

TEST_CASE_TEMPLATE_DEFINE("C6: slots are room, too", A, slots) {
  A a(hopper, few, tight(3));
  for (std::uint64_t i = 0; i < 3; ++i) {
    CHECK(a.has_room());
    a.charge(segment_id{i}, footprint{});
  }
  CHECK_FALSE(a.has_room());
  CHECK_FALSE(a.admits(footprint{}));
  a.release(segment_id{0});
  CHECK(a.has_room());
}
TEST_CASE_TEMPLATE_APPLY(slots, all_accountants);

TEST_CASE_TEMPLATE_DEFINE("C7: nothing allocates once it is built", A, hot) {
  workload w(5, few, true);
  A a(hopper, few, tight());
  std::size_t allocated = 0;
  run(a, w, 5000, [&](A& x, const call& c, auto&& make) {
    const std::size_t before = gsched::testing::allocations();
    make();
    static_cast<void>(x.has_room());
    static_cast<void>(x.admits(c.asked));
    static_cast<void>(x.load());
    allocated += gsched::testing::allocations() - before;
  });
  CHECK(gsched::testing::allocations() > 0); // allocations are counted
  CHECK(allocated == 0);
}
TEST_CASE_TEMPLATE_APPLY(hot, all_accountants);

TEST_CASE_TEMPLATE_DEFINE("C8: equal calls, equal answers", A, deterministic) {
  workload w(9, few, true);
  A a(hopper, few);
  A b(hopper, few);
  run(a, w, 2000, [&](A&, const call& c, auto&& make) {
    make();
    apply(b, c);
    REQUIRE(a.load() == b.load());
    REQUIRE(a.has_room() == b.has_room());
    REQUIRE(a.violations() == b.violations());
  });
}
TEST_CASE_TEMPLATE_APPLY(deterministic, all_accountants);

TEST_CASE_TEMPLATE_DEFINE("options out of range are refused", A, options) {
  const auto with = [](accountant_options o) { static_cast<void>(A(hopper, few, o)); };
  CHECK_THROWS_AS(with({.max_outstanding = 0}), error);
  CHECK_THROWS_AS(with({.max_outstanding = accountant_options::most_outstanding + 1}), error);
  CHECK_NOTHROW(with({.max_outstanding = accountant_options::most_outstanding}));
  CHECK_THROWS_AS(static_cast<void>(A(hopper, sm_count{0}, {})), error);
}
TEST_CASE_TEMPLATE_APPLY(options, all_accountants);

TEST_CASE("a chosen accountant answers as the one it was chosen to be") {
  chosen_accountant segments(hopper, few, tight());
  chosen_accountant blocks(hopper, few, tight(), account_of::blocks);
  CHECK(segments.what() == account_of::segments);
  CHECK(blocks.what() == account_of::blocks);
  aggregate_accountant by_segments(hopper, few, tight());
  per_sm_accountant by_blocks(hopper, few, tight());
  workload w(11);
  for (int i = 0; i < 500; ++i) {
    const bool charge = w.running() == 0 || (w.below(3) == 0 && w.running() < 16);
    const call c = charge ? w.draw_charge() : w.draw_progress();
    apply(segments, c);
    apply(blocks, c);
    apply(by_segments, c);
    apply(by_blocks, c);
    REQUIRE(segments.load() == by_segments.load());
    REQUIRE(segments.has_room() == by_segments.has_room());
    REQUIRE(segments.admits(c.asked) == by_segments.admits(c.asked));
    REQUIRE(blocks.load() == by_blocks.load());
    REQUIRE(blocks.has_room() == by_blocks.has_room());
    REQUIRE(blocks.admits(c.asked) == by_blocks.admits(c.asked));
  }
  CHECK(blocks.violations() == accountant_violations{});
}

// Near misses: each violates one requirement of the concept.
namespace {

struct base {
  static constexpr bool wants_blocks = false;
  base(const architecture_limits&, sm_count, const accountant_options&) {}
  bool has_room() const noexcept;
  bool admits(const footprint&) const noexcept;
  void charge(segment_id, const footprint&, std::optional<segment_id> = {}) noexcept;
  void release(segment_id) noexcept;
  void started(segment_id, std::uint32_t, const kernel_demand&, std::uint32_t,
               std::uint32_t) noexcept;
  void ended(segment_id, std::uint32_t, std::uint32_t, std::uint32_t) noexcept;
  double load() const noexcept;
  std::size_t outstanding() const noexcept;
  std::size_t slots() const noexcept;
  const accountant_violations& violations() const noexcept;
};
static_assert(accountant<base>);

struct without_limits : base {
  without_limits();
};
struct asks_at_run_time : base {
  using base::base;
  bool wants_blocks = true;
};
struct throwing_room : base {
  using base::base;
  bool has_room() const;
};
struct changing_room : base {
  using base::base;
  bool has_room() noexcept;
};
struct admits_by_change : base {
  using base::base;
  bool admits(const footprint&) noexcept;
};
struct charge_answers : base {
  using base::base;
  bool charge(segment_id, const footprint&) noexcept;
};
struct release_throws : base {
  using base::base;
  void release(segment_id);
};
struct deaf_to_starts : base {
  using base::base;
  void started(segment_id) noexcept;
};
struct deaf_to_ends : base {
  using base::base;
  void ended(segment_id) noexcept;
};
struct whole_load : base {
  using base::base;
  int load() const noexcept;
};
struct silent : base {
  using base::base;
  void violations() const noexcept;
};
static_assert(!accountant<without_limits>);
static_assert(!accountant<asks_at_run_time>);
static_assert(!accountant<throwing_room>);
static_assert(!accountant<changing_room>);
static_assert(!accountant<admits_by_change>);
static_assert(!accountant<charge_answers>);
static_assert(!accountant<release_throws>);
static_assert(!accountant<deaf_to_starts>);
static_assert(!accountant<deaf_to_ends>);
static_assert(!accountant<whole_load>);
static_assert(!accountant<silent>);

} // namespace
