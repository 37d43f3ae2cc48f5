// SPDX-License-Identifier: Apache-2.0
//
// The simulator's results for lanes that yield, compared with measurements of prototypes on one
// H200.
#include <gsched/sim/device.hpp>
#include <gsched/workload/random.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace gsched;

namespace {

operation yielding_kernel(std::uint32_t blocks, double us) {
  operation op;
  op.launch.grid = {blocks, 1, 1};
  op.launch.block = {256, 1, 1};
  op.launch.registers_per_thread = 64; // four on an SM
  op.expected = from_us(us);
  return op;
}
operation leaving_kernel(std::uint32_t blocks, double us, double checkpoint_us) {
  operation op = yielding_kernel(blocks, us);
  op.preemptible = preemptibility::at_checkpoints;
  op.checkpoint = from_us(checkpoint_us);
  return op;
}

/// A device, and the times of its events.
struct watched {
  explicit watched(const sim::preset& p = sim::h200())
      : d(p, {64, 64}, {this, started, nullptr, nullptr, nullptr}) {}
  watched(const watched&) = delete;

  static void started(void* self, time_point at, const sim::operation_mark& m) noexcept {
    static_cast<watched*>(self)->last_start[index(m.lane)] = at;
  }

  void submit(lane_id lane, const program& p) {
    segment s;
    s.lane = lane;
    s.program = p.id();
    s.operations = p.range(0, p.size());
    REQUIRE(!d.submit(s));
  }
  /// The events that the host has available, without taking them.
  time_point seen(device_event::kind what) {
    std::array<device_event, 1> one;
    time_point at;
    do {
      d.wait(no_deadline);
      at = d.now() + sim::h200().host.poll;
      REQUIRE(d.poll(one) == 1);
    } while (one[0].what != what);
    return at;
  }
  /// When the host can see the first event of what started last on a lane.
  time_point seen_running(lane_id lane) {
    return last_start[index(lane)] + sim::h200().host.block_notification + sim::h200().host.poll;
  }

  std::array<time_point, 2> last_start{};
  sim::device d;
  lane_id low = d.open_lane({0, {}, true});
  lane_id high = d.open_lane({1, {}});
};

double median(std::vector<double> x) {
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

/// Prints the relative error, which must not exceed `part`.
void compare(const std::string& what, double predicted, double measured, double part) {
  MESSAGE(what << ": " << predicted << " us, measured " << measured << " ("
               << 100 * (predicted / measured - 1) << "%)");
  CHECK(std::abs(predicted / measured - 1) <= part);
}

} // namespace

TEST_CASE("528 blocks that look at a flag are gone, and the next kernel runs, when they should") {
  random_engine random(1);
  std::vector<double> gone, on_full, on_idle;
  for (int i = 0; i < 200; ++i) {
    for (const bool full : {true, false}) {
      watched w;
      program blocks("blocks", {leaving_kernel(528, 10000, 0.5)});
      program request("request", {yielding_kernel(528, 100)});
      w.d.load(blocks);
      w.d.load(request);
      if (full) w.submit(w.low, blocks);
      w.d.spend(from_us(200 + 100 * draw_uniform(random)));
      const time_point decided = w.d.now();
      w.d.yield(w.low);
      if (!full) w.d.spend(sim::h200().yields.flag - sim::h200().yields.hold); // it writes as well
      w.submit(w.high, request);
      if (full) gone.push_back(to_us(w.seen(device_event::kind::segment_preempted) - decided));
      static_cast<void>(w.seen(device_event::kind::lane_yielded));
      CHECK(w.d.restarted_blocks() == (full ? 528 : 0));
      static_cast<void>(w.seen(device_event::kind::segment_done));
      (full ? on_full : on_idle).push_back(to_us(w.seen_running(w.high) - decided));
    }
  }
  compare("decision to 528 blocks gone", median(gone), 5.1, 0.1);
  // The preset's launch latency is fitted to graphs from end to end: the difference to the measured
  // 6.9 is in its notification latency. So the full GPU is compared with the idle one.
  MESSAGE("decision to a kernel running: " << median(on_full) << " us on a full GPU, "
                                           << median(on_idle) << " on an idle one");
  compare("decision to a kernel running on a full GPU, if 6.9 on an idle one",
          6.9 + median(on_full) - median(on_idle), 8.2, 0.05);
}

TEST_CASE("what is left of 528 blocks runs again soon, and only that") {
  watched w;
  program blocks("blocks", {leaving_kernel(528 * 4, 400, 5)});
  w.d.load(blocks);
  w.submit(w.low, blocks);
  w.d.spend(from_us(250)); // in the third of four waves
  w.d.yield(w.low);
  static_cast<void>(w.seen(device_event::kind::lane_yielded));
  w.d.spend(from_us(100));
  const time_point decided = w.d.now();
  w.d.resume(w.low);
  w.submit(w.low, blocks);
  const time_point end = w.seen(device_event::kind::segment_done);
  const time_point start = w.last_start[index(w.low)];
  MESSAGE("restore: " << to_us(start - decided) << " us from the decision to blocks that run");
  CHECK(start - decided < from_us(15));
  CHECK(to_us(end - start) == doctest::Approx(200).epsilon(0.05)); // two waves of 100
  CHECK(w.d.rerun_blocks() == 0);
  CHECK(w.d.restarted_blocks() == 528);
}

TEST_CASE("unmodified kernels are held, and go on, as gates of every first, second and fourth do") {
  const std::array<std::pair<std::uint32_t, double>, 3> rows{{{1, 15.7}, {2, 19.8}, {4, 26.7}}};
  for (const auto& [every, measured_us] : rows) {
    random_engine random(every);
    std::vector<double> quiet, going_on;
    for (int i = 0; i < 300; ++i) {
      sim::preset p = sim::h200();
      p.yields.gate_every = every;
      watched w(p);
      program work("work", std::vector<operation>(60, yielding_kernel(132, 8)));
      w.d.load(work);
      w.submit(w.low, work);
      w.d.spend(from_us(100 + 333.6 * draw_uniform(random))); // 40 of them and their gaps
      time_point decided = w.d.now();
      w.d.yield(w.low);
      quiet.push_back(to_us(w.seen(device_event::kind::lane_yielded) - decided));
      w.d.spend(from_us(100));
      decided = w.d.now();
      w.d.resume(w.low);
      static_cast<void>(w.seen(device_event::kind::lane_resumed));
      going_on.push_back(to_us(w.last_start[index(w.low)] - decided));
    }
    compare("quiet, gates at every " + std::to_string(every), median(quiet), measured_us, 0.15);
    compare("going on, gates at every " + std::to_string(every), median(going_on), 2.2, 0.1);
  }
}

TEST_CASE("gates cost a graph next to nothing, and a graph that is held costs others nothing") {
  const auto time_of = [](bool yields) {
    sim::device d(sim::h200());
    const lane_id lane = d.open_lane({0, {}, yields});
    program p("p", std::vector<operation>(200, yielding_kernel(528, 8)));
    d.load(p);
    segment s;
    s.lane = lane;
    s.program = p.id();
    s.operations = p.range(0, p.size());
    REQUIRE(!d.submit(s));
    d.wait(no_deadline);
    return to_us(d.now().time_since_epoch());
  };
  const double a_gate = (time_of(true) - time_of(false)) / (199 / sim::h200().yields.gate_every);
  CHECK(a_gate >= 0.02); // 132 blocks
  CHECK(a_gate <= 0.09); // 528 blocks

  const auto beside = [](bool held) {
    watched w;
    program request("request", std::vector<operation>(30, yielding_kernel(300, 8.5)));
    program batch("batch", std::vector<operation>(100, yielding_kernel(528, 20)));
    w.d.load(request);
    w.d.load(batch);
    if (held) {
      w.submit(w.low, batch);
      w.d.spend(from_us(300));
      w.d.yield(w.low);
      static_cast<void>(w.seen(device_event::kind::lane_yielded));
    }
    const time_point begin = w.d.now();
    w.submit(w.high, request);
    return to_us(w.seen(device_event::kind::segment_done) - begin);
  };
  compare("265 us beside a graph that is held", beside(true) / beside(false) * 265, 268, 0.02);
}
