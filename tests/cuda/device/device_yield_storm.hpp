// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/device/device_driven.hpp"
#include "cuda/device/device_yield_rig.hpp"
#include "cuda/graph/program_samples.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/cuda/program.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

// Runs a program that is held and resumed at random instants, and compares memory afterwards.

namespace gsched::testing {

[[nodiscard]] inline std::uint64_t yields_wanted() {
  const char* const asked = std::getenv("GSCHED_TEST_YIELDS");
  return asked == nullptr ? 700 : std::strtoull(asked, nullptr, 10);
}

[[nodiscard]] inline cuda::device_options storm_options(unsigned gate_every) {
  cuda::device_options o;
  o.grain = from_us(60);
  o.levels = 2;
  o.gate_every = gate_every;
  o.watchdog = std::chrono::seconds{5};
  return o;
}

/// The memory after the same number of undisturbed runs.
[[nodiscard]] inline std::vector<std::uint32_t> undisturbed(arena& memory, cuda::program& p,
                                                            std::uint64_t runs) {
  memory.reset();
  driven_cuda d(storm_options(2));
  const lane_id lane = d.device.open_lane({});
  d.device.load(p);
  for (std::uint64_t i = 0; i < runs; ++i) {
    REQUIRE(!d.submit(lane, p.host()));
    if (i % 16 == 15) REQUIRE(d.finish());
  }
  REQUIRE(d.finish());
  return memory.snapshot();
}

struct storm_outcome {
  std::uint64_t preempted = 0;
  bool same = false; ///< memory afterwards equals that of undisturbed runs
  cuda::device_statistics statistics;
};

/// Yields and resumes at random instants, on the memory given to make(name, arena).
template <class Make>
[[nodiscard]] storm_outcome stop_and_go(Make make, unsigned gate_every, std::uint64_t seed,
                                        std::uint64_t wanted = yields_wanted()) {
  CAPTURE(gate_every);
  arena memory;
  cuda::program p = make("p", memory);
  memory.reset();
  storm_outcome o;
  std::uint64_t runs = 0;
  {
    std::mt19937_64 random(seed);
    cuda::device d(storm_options(gate_every));
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
  CHECK(o.statistics.yields == wanted);
  CHECK(o.statistics.built_late == 0);
  const std::vector<std::uint32_t> got = memory.snapshot();
  o.same = got == undisturbed(memory, p, runs);
  return o;
}

} // namespace gsched::testing
