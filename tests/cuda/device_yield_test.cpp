// SPDX-License-Identifier: Apache-2.0
//
// Lanes that yield, on a GPU: whatever instant they are stopped at, memory ends up as if they had
// not been. GSCHED_TEST_YIELDS=10000 asks for as many, of each kind.
#include "cuda/device_yield_kernels.hpp"
#include "cuda/device_yield_rig.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/action.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace gsched::testing {
namespace {

using program_maker = cuda::program (*)(std::string, const arena&);

std::uint64_t yields_wanted() {
  const char* const asked = std::getenv("GSCHED_TEST_YIELDS");
  return asked == nullptr ? 700 : std::strtoull(asked, nullptr, 10);
}

cuda::device_options options(unsigned gate_every) {
  cuda::device_options o;
  o.grain = from_us(60);
  o.levels = 2;
  o.gate_every = gate_every;
  o.watchdog = std::chrono::seconds{5};
  return o;
}

/// What as many undisturbed runs leave behind.
std::vector<std::uint32_t> undisturbed(arena& memory, cuda::program& p, std::uint64_t runs) {
  memory.reset();
  driven_cuda d(options(2));
  const lane_id lane = d.device.open_lane({});
  d.device.load(p);
  for (std::uint64_t i = 0; i < runs; ++i) {
    REQUIRE(!d.submit(lane, p.host()));
    if (i % 16 == 15) REQUIRE(d.finish());
  }
  REQUIRE(d.finish());
  return memory.snapshot();
}

struct outcome {
  std::uint64_t preempted = 0;
  cuda::device_statistics statistics;
};

/// Stops and goes at random instants; memory afterwards is that of undisturbed runs.
outcome stop_and_go(program_maker make, unsigned gate_every, std::uint64_t seed) {
  CAPTURE(gate_every);
  arena memory;
  cuda::program p = make("p", memory);
  memory.reset();
  outcome o;
  std::uint64_t runs = 0;
  {
    std::mt19937_64 random(seed);
    cuda::device d(options(gate_every));
    const lane_id lane = d.open_lane({0, {}, true});
    d.load(p);
    endless_runs work(d, p.host(), lane, 60.0 * static_cast<double>(1 + seed % 2), 0);
    endless_runs* const all[] = {&work};
    const auto for_a_while = [&](std::uint64_t most_us, bool feeds) {
      const time_point until = d.now() + from_us(static_cast<double>(random() % most_us));
      REQUIRE(run_until(d, all, [&] {
        if (feeds) work.feed(1 + seed % 3, ~std::uint64_t{0} / p.host().size());
        return d.now() >= until;
      }));
    };
    const std::uint64_t wanted = yields_wanted();
    for (std::uint64_t i = 1; i <= wanted; ++i) {
      for_a_while(i % 3 == 0 ? 10 : 200, true);
      d.yield(lane);
      REQUIRE(run_until(d, all, [&] { return work.yielded == i; }));
      const std::uint64_t before = work.ended;
      for_a_while(i % 2 == 0 ? 3 : 60, false);
      CHECK(work.ended == before);
      d.resume(lane);
      REQUIRE(run_until(d, all, [&] { return work.resumed == i; }));
    }
    runs = std::max<std::uint64_t>(work.runs_begun(), 1);
    REQUIRE(run_until(d, all, [&] {
      work.feed(2, runs);
      return work.runs_ended() == runs && work.idle();
    }));
    CHECK(work.out_of_order == 0);
    CHECK(work.failed == 0);
    CHECK(work.refused == 0);
    CHECK(!d.failure());
    o.preempted = work.preempted;
    o.statistics = d.statistics();
  }
  CHECK(o.statistics.yields == yields_wanted());
  CHECK(o.statistics.built_late == 0);
  const std::vector<std::uint32_t> got = memory.snapshot();
  CHECK((got == undisturbed(memory, p, runs)));
  return o;
}

TEST_CASE("kernels that know nothing of it are held at random instants, and nothing is lost") {
  GSCHED_NEEDS_GPU();
  for (const unsigned every : {1u, 2u, 4u}) {
    const outcome o = stop_and_go(make_chain, every, every);
    CHECK(o.statistics.gates > 0);
    CHECK(o.statistics.stopped > yields_wanted() / 3);
    CHECK(o.statistics.left == 0);
  }
}

TEST_CASE("graphs that fork are held at random instants, and nothing is lost") {
  GSCHED_NEEDS_GPU();
  for (const unsigned every : {1u, 2u}) {
    const outcome o = stop_and_go(make_forks, every, 10 + every);
    CHECK(o.statistics.stopped > yields_wanted() / 4);
  }
}

TEST_CASE("kernels that leave are preempted at random instants, and no block runs twice") {
  GSCHED_NEEDS_GPU();
  for (const std::uint64_t seed : {20u, 21u, 22u}) {
    const outcome o = stop_and_go(make_leaving, 2, seed);
    CHECK(o.statistics.left > yields_wanted() / 3);
    CHECK(o.preempted >= o.statistics.left);
    CHECK(o.statistics.gates == 0);
    CHECK(o.statistics.stopped == 0);
  }
}

TEST_CASE("what is left of a program runs on another lane, with SMs of its own") {
  GSCHED_NEEDS_GPU();
  arena memory;
  cuda::program p = make_leaving("p", memory);
  memory.reset();
  constexpr std::uint64_t runs = 60;
  {
    driven_cuda d(options(2));
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

TEST_CASE("the programs of kernels that leave need one copy of each graph") {
  GSCHED_NEEDS_GPU();
  arena memory;
  cuda::program p = make_leaving("leaver", memory);
  CHECK(p.leaves());
  CHECK(p.host().operations()[0].leaves == leaving::at_checkpoints);
  CHECK(p.host().operations()[1].leaves == leaving::between_blocks);
  cuda::device_options o = options(2);
  o.copies = 2;
  cuda::device d(o);
  CHECK_THROWS_WITH_AS(d.load(p), doctest::Contains("leaver: kernels that leave, and 2 copies"),
                       error);
}

TEST_CASE("a lane yields with nothing in flight, with copies alone, and at segments' ends") {
  GSCHED_NEEDS_GPU();
  arena memory;
  cuda::program p = make_chain("p", memory);
  driven_cuda d(options(2));
  const lane_id lane = d.device.open_lane({0, {}, true});
  d.device.load(p);
  std::size_t heard = 0; // other events may come behind the one that is waited for
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
  d.device.resume(lane); // not yielded: nothing
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
  for (int i = 0; i < 200; ++i) { // the last gates pass, and nothing is left to stand
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

TEST_CASE("a lane that stands does not concern another one") {
  GSCHED_NEEDS_GPU();
  arena first;
  arena second;
  cuda::program p = make_chain("p", first);
  cuda::program q = make_chain("q", second);
  cuda::device d(options(2));
  const lane_id a = d.open_lane({0, {}, true});
  const lane_id b = d.open_lane({0, {}, true}); // shares the graphs' place
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
