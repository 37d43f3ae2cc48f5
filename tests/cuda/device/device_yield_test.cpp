// SPDX-License-Identifier: Apache-2.0
//
// Lanes that yield, on a GPU: stopped at any instant, they leave memory as without stops.
// GSCHED_TEST_YIELDS=10000 sets the number of yields of each kind.
#include "cuda/device/device_yield_kernels.hpp"
#include "cuda/device/device_yield_rig.hpp"
#include "cuda/device/device_yield_storm.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/action.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace gsched::testing {
namespace {

TEST_CASE("unmodified kernels are held at random instants, and no work is lost") {
  GSCHED_NEEDS_GPU();
  for (const unsigned every : {1u, 2u, 4u}) {
    const storm_outcome o = stop_and_go(make_chain, every, every);
    CHECK(o.same);
    CHECK(o.statistics.gates > 0);
    CHECK(o.statistics.stopped > yields_wanted() / 3);
    CHECK(o.statistics.preempted == 0);
  }
}

TEST_CASE("graphs that fork are held at random instants, and no work is lost") {
  GSCHED_NEEDS_GPU();
  for (const unsigned every : {1u, 2u}) {
    const storm_outcome o = stop_and_go(make_forks, every, 10 + every);
    CHECK(o.same);
    CHECK(o.statistics.stopped > yields_wanted() / 4);
  }
}

TEST_CASE("preemptible kernels are preempted at random instants, and no block runs twice") {
  GSCHED_NEEDS_GPU();
  for (const std::uint64_t seed : {20u, 21u, 22u}) {
    const storm_outcome o = stop_and_go(make_preemptible_steps, 2, seed);
    CHECK(o.same);
    CHECK(o.statistics.preempted > yields_wanted() / 3);
    CHECK(o.preempted >= o.statistics.preempted);
    CHECK(o.statistics.gates == 0);
    CHECK(o.statistics.stopped == 0);
  }
}

TEST_CASE("a program with some preemptible kernels is held, and none of them is preempted") {
  GSCHED_NEEDS_GPU();
  arena memory;
  const cuda::program p = make_mixed("mixed", memory);
  CHECK(!p.is_preemptible());
  for (const operation& op : p.host().operations()) CHECK(op.preemptible == preemptibility::never);
  for (const unsigned every : {1u, 2u}) {
    const storm_outcome o = stop_and_go(make_mixed, every, 30 + every, 200);
    CHECK(o.same);
    CHECK(o.statistics.gates > 0);
    CHECK(o.statistics.stopped > 200 / 4);
    CHECK(o.statistics.preempted == 0);
    CHECK(o.preempted <= 3 * 200); // segments that had not started
  }
}

// Such a checkpoint has no barrier, so nothing can hang.
TEST_CASE("if half of each warp reaches a checkpoint, that half exits and the block restarts") {
  GSCHED_NEEDS_GPU();
  const storm_outcome o = stop_and_go(make_divergent, 2, 40, 200);
  CHECK(o.same);
  CHECK(o.statistics.preempted > 200 / 10);
}

TEST_CASE("the rest of a preempted program runs on another lane, with SMs of its own") {
  GSCHED_NEEDS_GPU();
  arena memory;
  cuda::program p = make_preemptible_steps("p", memory);
  memory.reset();
  constexpr std::uint64_t runs = 60;
  {
    driven_cuda d(storm_options(2));
    const lane_id low = d.device.open_lane({0, {}, true});
    const lane_id side = d.device.open_lane({0, sm_count{16}, false});
    d.device.load(p);
    std::mt19937_64 random(5);
    for (std::uint64_t i = 0; i < runs; ++i) {
      std::size_t first = 0;
      lane_id on = low;
      while (first < p.host().size()) {
        d.events.clear();
        REQUIRE(!d.submit(on, p.host(), first, p.host().size()));
        const auto ended = [&] {
          return std::find_if(d.events.begin(), d.events.end(), [](const device_event& e) {
            return e.what == device_event::kind::segment_done ||
                   e.what == device_event::kind::segment_preempted;
          });
        };
        if (on == low) {
          const time_point until = d.device.now() + from_us(static_cast<double>(random() % 300));
          while (d.device.now() < until) d.poll();
          d.device.yield(low);
          const time_point late = d.device.now() + from_us(5e6);
          while (d.events.empty() || d.events.back().what != device_event::kind::lane_yielded) {
            REQUIRE(d.device.now() < late);
            d.poll();
          }
          d.device.resume(low);
        }
        const time_point late = d.device.now() + from_us(5e6);
        while (ended() == d.events.end()) {
          REQUIRE(d.device.now() < late);
          d.poll();
        }
        const bool done = ended()->what == device_event::kind::segment_done;
        first = done ? p.host().size() : first + ended()->operation;
        on = side;
      }
    }
  }
  const std::vector<std::uint32_t> got = memory.snapshot();
  CHECK((got == undisturbed(memory, p, runs)));
}

TEST_CASE("ended blocks that run again are counted when the remaining ones are discarded") {
  GSCHED_NEEDS_GPU();
  arena memory;
  cuda::program p = make_preemptible_steps("p", memory);
  memory.reset();
  driven_cuda d(storm_options(1));
  const lane_id low = d.device.open_lane({0, {}, true});
  d.device.load(p);
  std::mt19937_64 random(7);
  const auto until = [&](auto seen) {
    const time_point late = d.device.now() + from_us(5e6);
    while (std::none_of(d.events.begin(), d.events.end(), seen)) {
      REQUIRE(d.device.now() < late);
      d.poll();
    }
  };
  const auto is = [](device_event::kind what) {
    return [what](const device_event& e) { return e.what == what; };
  };
  using kind = device_event::kind;
  // Runs from an operation, preempts that, and returns where it stopped, if it was preempted.
  const auto preempted = [&](std::size_t first) -> std::optional<std::size_t> {
    d.events.clear();
    REQUIRE(!d.submit(low, p.host(), first, p.host().size()));
    const time_point stop = d.device.now() + from_us(static_cast<double>(random() % 200));
    while (d.device.now() < stop) d.poll();
    d.device.yield(low);
    until(is(kind::lane_yielded));
    d.device.resume(low);
    until([](const device_event& e) {
      return e.what == kind::segment_done || e.what == kind::segment_preempted;
    });
    const auto left = std::find_if(d.events.begin(), d.events.end(), is(kind::segment_preempted));
    if (left == d.events.end()) return std::nullopt;
    return first + left->operation;
  };
  // The remaining blocks run where the program stopped: no block runs twice.
  for (int i = 0; i < 50; ++i)
    for (std::optional<std::size_t> from = 0; from;) from = preempted(*from);
  CHECK(d.device.statistics().preempted > 0);
  CHECK(d.device.statistics().rerun_blocks == 0);
  // The remaining blocks are discarded, because the program restarts.
  for (int i = 0; i < 200 && d.device.statistics().rerun_blocks == 0; ++i) {
    const std::optional<std::size_t> from = preempted(0);
    if (!from || *from == 0) continue;
    d.events.clear();
    REQUIRE(!d.submit(low, p.host(), 0, p.host().size()));
    until(is(kind::segment_done));
    CHECK(d.device.statistics().rerun_blocks < arena::row); // in a chain: of one kernel only
  }
  CHECK(d.device.statistics().rerun_blocks > 0);
}

TEST_CASE("preemptible programs need one copy of each graph") {
  GSCHED_NEEDS_GPU();
  arena memory;
  cuda::program p = make_preemptible_steps("steps", memory);
  CHECK(p.is_preemptible());
  CHECK(p.host().operations()[0].preemptible == preemptibility::at_checkpoints);
  CHECK(p.host().operations()[1].preemptible == preemptibility::between_blocks);
  cuda::device_options o = storm_options(2);
  o.copies = 2;
  cuda::device d(o);
  CHECK_THROWS_WITH_AS(d.load(p), doctest::Contains("steps: preemptible kernels with 2 copies"),
                       error);
}

TEST_CASE("a lane yields without work in flight, with copies only, and at ends of segments") {
  GSCHED_NEEDS_GPU();
  arena memory;
  cuda::program p = make_chain("p", memory);
  driven_cuda d(storm_options(2));
  const lane_id lane = d.device.open_lane({0, {}, true});
  d.device.load(p);
  std::size_t heard = 0; // other events may follow the awaited one
  const auto say = [&](device_event::kind what) {
    const time_point late = d.device.now() + from_us(5e6);
    for (;;) {
      for (; heard < d.events.size(); ++heard)
        if (d.events[heard].what == what) return d.events[heard++].lane == lane;
      if (d.device.now() >= late) return false;
      d.device.wait(late);
      d.poll();
    }
  };
  const auto turn = [&] {
    d.device.yield(lane);
    REQUIRE(say(device_event::kind::lane_yielded));
    d.device.wait(d.device.now() + from_us(30));
    d.poll();
    d.device.resume(lane);
    REQUIRE(say(device_event::kind::lane_resumed));
  };
  for (int i = 0; i < 3; ++i) turn();
  CHECK(d.events.size() == 6);
  d.device.resume(lane); // no effect: it has not yielded
  d.poll();
  CHECK(d.events.size() == 6);

  const cuda::copy_action copy(memory.at(0), memory.pinned());
  const operation up = copy.as_operation(copy_direction::host_to_device, arena::row_bytes);
  const operation* one = &up;
  for (int i = 0; i < 20; ++i) {
    REQUIRE(!d.submit_loose(lane, {&one, 1}));
    REQUIRE(!d.submit_loose(lane, {&one, 1}));
    turn();
  }
  for (int i = 0; i < 200; ++i) { // the last gates may pass, so that nothing can be held
    REQUIRE(!d.submit(lane, p.host(), 0, 3));
    const time_point until = d.device.now() + from_us(static_cast<double>(i % 50));
    while (d.device.now() < until) d.poll();
    turn();
  }
  CHECK(d.finish());
  CHECK(d.failed == 0);
  CHECK(!d.device.failure());
  CHECK(d.device.statistics().yields == 223);
}

TEST_CASE("a held lane does not affect another lane") {
  GSCHED_NEEDS_GPU();
  arena first;
  arena second;
  cuda::program p = make_chain("p", first);
  cuda::program q = make_chain("q", second);
  cuda::device d(storm_options(2));
  const lane_id a = d.open_lane({0, {}, true});
  const lane_id b = d.open_lane({0, {}, true}); // shares the place of its graphs
  d.load(p);
  d.load(q);
  endless_runs one(d, p.host(), a, 60, 0);
  endless_runs two(d, q.host(), b, 60, std::uint64_t{1} << 32);
  endless_runs* const all[] = {&one, &two};
  const auto both = [&] {
    one.feed(2, 1000000);
    two.feed(2, 1000000);
  };
  for (std::uint64_t i = 1; i <= 50; ++i) {
    endless_runs& stops = i % 2 == 0 ? one : two;
    endless_runs& goes = i % 2 == 0 ? two : one;
    const time_point until = d.now() + from_us(100);
    REQUIRE(run_until(d, all, [&] { return both(), d.now() >= until; }));
    const lane_id lane = i % 2 == 0 ? a : b;
    const std::uint64_t yields = stops.yielded;
    d.yield(lane);
    REQUIRE(run_until(d, all, [&] { return goes.feed(2, 1000000), stops.yielded > yields; }));
    const std::uint64_t stood = stops.ended;
    const std::uint64_t went = goes.ended;
    REQUIRE(run_until(d, all, [&] {
      goes.feed(2, 1000000);
      return goes.ended >= went + q.host().size();
    }));
    CHECK(stops.ended == stood);
    d.resume(lane);
    REQUIRE(run_until(d, all, [&] { return both(), stops.resumed == stops.yielded; }));
  }
  REQUIRE(run_until(d, all, [&] { return one.idle() && two.idle(); }));
  CHECK(one.failed + two.failed + one.out_of_order + two.out_of_order == 0);
  CHECK(d.statistics().yields == 50);
}

} // namespace
} // namespace gsched::testing
