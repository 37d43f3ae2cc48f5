// SPDX-License-Identifier: Apache-2.0
//
// Kernels that are preempted when their lane yields, and the kernels behind them, which run through
// the GPU.
#include <sim/noted_device.hpp>

#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::testing {
namespace {

using event_kind = device_event::kind;

/// The time from a yield until the host knows that a kernel was preempted and others have run
/// through behind it.
double gone_us(const std::vector<std::uint32_t>& passing, double takes_us) {
  noted n;
  std::vector<operation> ops{kernel_of(132, 1e4, preemptibility::at_checkpoints)};
  for (const std::uint32_t blocks : passing)
    ops.push_back(kernel_of(blocks, takes_us, preemptibility::at_checkpoints));
  program p("p", ops);
  n.d.load(p);
  const segment_id id = n.submit(n.low, p);
  n.away(10);
  // at the same distance from a checkpoint each time
  n.d.spend(n.starts[0][0] + from_us(100) - n.d.now());
  const time_point decided = n.d.now();
  n.d.yield(n.low);
  const device_event e = n.until(event_kind::segment_preempted);
  CHECK(e.segment == id);
  CHECK(e.operation == 0);
  const double us = to_us(n.d.now() - decided);
  CHECK(n.until(event_kind::lane_yielded).lane == n.low);
  return us;
}

} // namespace

TEST_CASE("kernels that find the flag set pass wave by wave, whatever they would have taken") {
  const sim::preset p = quiet_preset();
  const double gap = to_us(p.laws.graph.gap);
  const double passing = to_us(p.yields.passing);
  const double full_wave = passing + to_us(p.laws.preemption.listing * (528 - 132));
  CHECK(full_wave > passing + 1);
  const double none = gone_us({}, 1);
  for (const double takes : {2.0, 500.0}) {
    CHECK(gone_us({132}, takes) - none == doctest::Approx(gap + passing).epsilon(0.01));
    CHECK(gone_us({16}, takes) - none == doctest::Approx(gap + passing).epsilon(0.01));
    CHECK(gone_us({528}, takes) - none == doctest::Approx(gap + full_wave).epsilon(0.01));
    CHECK(gone_us({5280}, takes) - none == doctest::Approx(gap + 10 * full_wave).epsilon(0.01));
    CHECK(gone_us({528, 132, 132}, takes) - none ==
          doctest::Approx(3 * gap + full_wave + 2 * passing).epsilon(0.01));
  }
}

TEST_CASE("kernels that pass find room like any: behind those that are more urgent") {
  noted n;
  program p("p", {kernel_of(528 * 8, 80, preemptibility::at_checkpoints),
                  kernel_of(528, 10, preemptibility::at_checkpoints)});
  program urgent = chain(1, kernel_of(528, 300));
  n.d.load(p);
  n.d.load(urgent);
  n.submit(n.low, p);
  n.away(41); // in the fifth of eight waves
  n.d.yield(n.low);
  n.submit(n.high, urgent);
  const time_point decided = n.d.now();
  CHECK(n.until(event_kind::segment_preempted).operation == 0);
  const time_point gone = n.d.now();
  CHECK(gone - decided > from_us(290));
  REQUIRE(n.ends[1].size() == 1);
  CHECK(n.starts[1][0] - decided < from_us(15)); // not behind the kernels that run through
  const sim::preset preset = quiet_preset();
  const duration wave = preset.yields.passing + preset.laws.preemption.listing * (528 - 132);
  CHECK(gone > n.ends[1][0] + 4 * wave); // three waves of the first, one of the second
  CHECK(gone < n.ends[1][0] + 5 * wave + from_us(3));
  static_cast<void>(n.until(event_kind::lane_yielded));
  CHECK(n.starts[0].size() == 2);
  n.d.resume(n.low);
  n.submit(n.low, p);
  static_cast<void>(n.until(event_kind::segment_done));
  const duration rest = n.starts[0][3] - n.starts[0][2];
  CHECK(rest > from_us(39)); // blocks of four waves have ended
  CHECK(rest < from_us(41));
  CHECK(n.d.rerun_blocks() == 0);
}

TEST_CASE("a kernel of which some is left passes and keeps that") {
  sim::preset preset = quiet_preset();
  preset.host.start = from_us(20); // so that a flag can be faster
  noted n(preset);
  program p("p", {kernel_of(528 * 8, 80, preemptibility::at_checkpoints)});
  n.d.load(p);
  n.submit(n.low, p);
  n.away(60);
  for (int i = 0; i < 3; ++i) { // in part, and then twice before it has started
    n.d.yield(n.low);
    CHECK(n.until(event_kind::segment_preempted).operation == 0);
    static_cast<void>(n.until(event_kind::lane_yielded));
    n.d.resume(n.low);
    n.submit(n.low, p);
  }
  static_cast<void>(n.until(event_kind::segment_done));
  REQUIRE(n.starts[0].size() == 4);
  const duration rest = n.ends[0][3] - n.starts[0][3];
  CHECK(rest > from_us(39)); // blocks of four waves had ended
  CHECK(rest < from_us(41));
  CHECK(n.d.rerun_blocks() == 0);
  CHECK(n.d.restarted_blocks() == 528);
}

TEST_CASE("segments that leave are handed over one behind the other, and all pass") {
  noted n;
  program p = chain(4, kernel_of(132, 20, preemptibility::between_blocks));
  n.d.load(p);
  std::vector<segment_id> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(n.submit(n.low, p));
  n.away(120);                   // in the second
  CHECK(n.starts[0].size() > 4); // although no poll has taken them
  n.d.yield(n.low);
  static_cast<void>(n.until(event_kind::lane_yielded));
  REQUIRE(n.taken.size() == 4);
  CHECK(n.taken[0].what == event_kind::segment_done);
  CHECK(n.taken[1].what == event_kind::segment_preempted);
  CHECK(n.taken[1].operation > 0);
  CHECK(n.taken[2].what == event_kind::segment_preempted);
  CHECK(n.taken[2].operation == 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(n.taken[i].segment == ids[i]);
  CHECK(n.starts[0].size() == 12); // each of them was on the GPU
}

TEST_CASE("kernels that can leave take their preamble longer, on lanes that yield") {
  const auto time_of = [](preemptibility how, bool yields) {
    noted n;
    program p = chain(101, kernel_of(132, 5, how));
    n.d.load(p);
    const lane_id lane = yields ? n.low : n.high;
    n.submit(lane, p);
    static_cast<void>(n.until(event_kind::segment_done));
    return to_us(n.ends[index(lane)].back() - n.starts[index(lane)].front()) / 100;
  };
  const double plain = time_of(preemptibility::never, false);
  const double preamble = to_us(quiet_preset().laws.preemption.preamble);
  CHECK(preamble > 0.2);
  CHECK(time_of(preemptibility::at_checkpoints, true) ==
        doctest::Approx(plain + preamble).epsilon(1e-3));
  CHECK(time_of(preemptibility::at_checkpoints, false) == doctest::Approx(plain).epsilon(1e-3));
}

} // namespace gsched::testing
