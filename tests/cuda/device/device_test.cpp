// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"
#include "cuda/device/device_driven.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/action.hpp>
#include <gsched/cuda/error.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

namespace gsched::testing {
namespace {

TEST_CASE("of two launches of one graph, the end of the first is seen before the second ends") {
  GSCHED_NEEDS_GPU();
  cuda::program p = stand_ins("p", 20, kernel_of(66, 128, 100));
  cuda::device_options o;
  o.grain = from_us(1000);
  o.levels = 1;
  driven_cuda d(o);
  const lane_id first = d.device.open_lane({});
  const lane_id second = d.device.open_lane({});
  d.device.load(p);
  REQUIRE(p.host().grain_ends().size() > 2); // the first grain ends within the program
  const std::size_t end = p.host().grain_ends()[1];
  for (int turn = 0; turn < 5; ++turn) {
    const std::size_t before = d.done;
    for (const lane_id lane : {first, second}) REQUIRE(!d.submit(lane, p.host(), 0, end));
    const time_point late = d.device.now() + from_us(1e6);
    while (d.done == before && d.device.now() < late) d.poll();
    CHECK(d.done == before + 1); // CUDA runs the launches of a graph in order
    REQUIRE(d.finish());
  }
  CHECK(d.failed == 0);
}

TEST_CASE("without a GPU, making a device fails in one line; bad options are named") {
  const auto line_of = [](const cuda::device_options& o) -> std::string {
    try {
      cuda::device d(o);
    } catch (const error& e) {
      return e.what();
    }
    return "";
  };
  cuda::device_options o;
  o.copies = 0;
  CHECK(line_of(o).find("copies: expected") != std::string::npos);
  o = {};
  o.levels = 0;
  CHECK(line_of(o).find("levels: expected") != std::string::npos);
  o = {};
  o.group_blocks = 17;
  CHECK(line_of(o).find("group_blocks: expected") != std::string::npos);
  if (gpus_here() > 0) return;
  const std::string line = line_of({});
  CHECK(line.find("driver") != std::string::npos);
  CHECK(line.find('\n') == std::string::npos);
}

TEST_CASE("ranges foreseen by load are not built later, and are launched as graphs") {
  GSCHED_NEEDS_GPU();
  cuda::program p = stand_ins("p", 70, kernel_of(132, 128, 20));
  driven_cuda d;
  const lane_id lane = d.device.open_lane({});
  d.device.load(p);
  const gsched::program& host = p.host();
  REQUIRE(host.grain_ends().size() > 10);
  std::size_t segments = 0;
  for (const double quantum_us : {1.0, 100.0, 200.0, 400.0, 800.0}) {
    for (std::size_t first = 0; first < host.size(); ++segments) {
      const std::size_t last = host.cut(first, from_us(quantum_us));
      CHECK(!d.submit(lane, host, first, last));
      first = last;
    }
    REQUIRE(d.finish());
  }
  const cuda::device_statistics& s = d.device.statistics();
  CHECK(d.done == segments);
  CHECK(s.built_late == 0);
  CHECK(s.direct_launches == 0);
  CHECK(s.graph_launches == segments);
  CHECK(s.driver_ns == 0);
  CHECK(d.device.memory_of(host).graphs >= host.grain_ends().size());
  CHECK(d.device.memory_of(host).nodes >= 4 * host.size() / 2);

  CHECK(!d.submit(lane, host, 1, 3)); // not foreseen: built once
  CHECK(!d.submit(lane, host, 1, 3));
  CHECK(!d.submit(lane, host, 1, 4, false, submission::launches));
  REQUIRE(d.finish());
  CHECK(s.built_late == 1);
  CHECK(s.direct_launches == 3);
}

TEST_CASE("the graph of the whole program is built on request, and driver time is measured") {
  GSCHED_NEEDS_GPU();
  cuda::program p = stand_ins("p", 100, kernel_of(132, 128, 20)); // 20 grains, more than 8
  for (const bool whole : {true, false}) {
    cuda::device_options o;
    o.whole = whole;
    o.time_driver = true;
    driven_cuda d(o);
    const lane_id lane = d.device.open_lane({});
    d.device.load(p);
    CHECK(!d.submit(lane, p.host()));
    REQUIRE(d.finish());
    CHECK(d.device.statistics().built_late == (whole ? 0 : 1));
    CHECK(d.device.statistics().driver_ns > 0);
  }
}

TEST_CASE("lanes opened after load have their graphs too, with the stream's priority") {
  GSCHED_NEEDS_GPU();
  cuda::program p = stand_ins("p", 30, kernel_of(20, 128, 20));
  driven_cuda d;
  d.device.load(p);
  int least = 0;
  int most = 0;
  REQUIRE(cudaDeviceGetStreamPriorityRange(&least, &most) == cudaSuccess);
  for (const int priority : {-7, 0, 1, 3, 1000}) {
    const lane_id lane = d.device.open_lane({priority, sm_count{}});
    int on_gpu = 0;
    REQUIRE(cudaStreamGetPriority(d.device.stream_of(lane), &on_gpu) == cudaSuccess);
    CHECK(on_gpu == std::max(most, std::min(0, -priority)));
    CHECK(!d.submit(lane, p.host(), 0, p.host().cut(0, from_us(100))));
  }
  REQUIRE(d.finish());
  CHECK(d.done == 5);
  CHECK(d.device.statistics().built_late == 0);
}

TEST_CASE("submit refuses with one code and changes nothing") {
  GSCHED_NEEDS_GPU();
  cuda::program p = stand_ins("p", 4, kernel_of(150, 64, 5));
  gsched::program foreign("foreign", {kernel_of(1, 32, 1)});
  cuda::device_options o;
  o.max_segments = 2;
  o.ring_slots = 64;
  driven_cuda d(o);
  const lane_id lane = d.device.open_lane({});
  d.device.load(p);
  CHECK_THROWS_WITH_AS(d.device.load(foreign), doctest::Contains("foreign: "), error);

  segment s;
  s.lane = lane_id{9};
  s.program = p.host().id();
  s.operations = p.host().range(0, 1);
  CHECK(d.submit(s) == errc::bad_option);
  s.lane = lane;
  s.first = 4;
  CHECK(d.submit(s) == errc::bad_option);
  s.first = 0;
  s.program = program_id{5};
  CHECK(d.submit(s) == errc::bad_option);
  s.operations = {};
  CHECK(d.submit(s) == errc::bad_option);

  s.program = no_program; // kernels need a program, other operations an action
  s.operations = p.host().range(0, 1);
  CHECK(d.submit(s) == errc::bad_handle);
  s.operations = foreign.range(0, 1);
  CHECK(d.submit(s) == errc::bad_handle);
  operation event;
  event.kind = operation_kind::event_record;
  const operation* pointer = &event;
  CHECK(d.submit_loose(lane, {&pointer, 1}) == errc::bad_option);

  CHECK(d.submit(lane, p.host(), true) == errc::too_small); // 4 kernels of 20 words, 64 slots
  CHECK(d.accepted == 0);
  CHECK(!d.submit(lane, p.host()));
  CHECK(!d.submit(lane, p.host()));
  CHECK(d.submit(lane, p.host()) == errc::too_small);
  REQUIRE(d.finish());
  CHECK(!d.submit(lane, p.host(), 0, 3, true));
  REQUIRE(d.finish());
  CHECK(d.failed == 0);
}

TEST_CASE("segments wait for space in the ring in order, and can be evicted") {
  GSCHED_NEEDS_GPU();
  cuda::program big = stand_ins("big", 1, kernel_of(16 * 20, 128, 200));
  cuda::program small = stand_ins("small", 1, kernel_of(16, 128, 5));
  cuda::device_options o;
  o.instrumented = true;
  o.ring_slots = 64; // space for one segment of 40 words
  driven_cuda d(o);
  const lane_id a = d.device.open_lane({});
  const lane_id b = d.device.open_lane({});
  d.device.load(big);
  d.device.load(small);
  for (int round = 0; round < 3; ++round) {
    CHECK(!d.submit(a, big.host(), true));
    CHECK(!d.submit(a, big.host(), true));   // waits for space
    CHECK(!d.submit(b, small.host(), true)); // fits, but must not pass the waiting one
    CHECK(!d.submit(b, small.host()));       // needs no space, but its lane waits
    REQUIRE(d.finish());
  }
  CHECK(d.done == 12);
  CHECK(d.device.statistics().held == 9);
  CHECK(d.blocks(device_event::kind::blocks_started) == 3 * (2 * 320 + 16));
  CHECK(d.blocks(device_event::kind::blocks_done) == 3 * (2 * 320 + 16));
  CHECK(d.device.statistics().lost_words == 0);
  CHECK(d.device.statistics().unknown_words == 0);

  CHECK(!d.submit(a, big.host(), true));
  CHECK(!d.submit(a, big.host(), true));
  CHECK(!d.submit(a, small.host()));
  CHECK(!d.submit(b, small.host(), true));
  CHECK(d.device.evict(a) == 2);
  CHECK(d.device.evict(a) == 0);
  CHECK(d.device.evict(b) == 1);
  d.accepted -= 3;
  REQUIRE(d.finish());
  CHECK(d.done == 13);
  CHECK(!d.submit(a, big.host(), true)); // all space was returned
  REQUIRE(d.finish());
}

TEST_CASE("direct launches report blocks as graphs do") {
  GSCHED_NEEDS_GPU();
  cuda::program p = stand_ins("p", 6, kernel_of(50, 64, 10));
  driven_cuda d;
  const lane_id a = d.device.open_lane({});
  const lane_id b = d.device.open_lane({});
  d.device.load(p);
  for (int i = 0; i < 10; ++i)
    CHECK(!d.submit(i % 2 == 0 ? a : b, p.host(), 0, 6, true, submission::launches));
  REQUIRE(d.finish());
  CHECK(d.done == 10);
  CHECK(d.blocks(device_event::kind::blocks_started) == 10 * 6 * 50);
  CHECK(d.blocks(device_event::kind::blocks_done) == 10 * 6 * 50);
  CHECK(d.device.statistics().unknown_words == 0);
}

TEST_CASE("one graph on many lanes runs in order, and each launch has its own words") {
  GSCHED_NEEDS_GPU();
  cuda::program p = stand_ins("p", 3, kernel_of(100, 128, 15));
  for (const std::uint32_t copies : {1u, 4u}) {
    cuda::device_options o;
    o.instrumented = true;
    o.copies = copies;
    driven_cuda d(o);
    std::vector<lane_id> lanes;
    for (int i = 0; i < 4; ++i) lanes.push_back(d.device.open_lane({}));
    d.device.load(p);
    for (std::size_t i = 0; i < 400; ++i) {
      CHECK(!d.submit(lanes[i % 4], p.host(), true));
      d.poll();
    }
    REQUIRE(d.finish());
    std::vector<std::uint64_t> ended(400, 0);
    for (const device_event& e : d.events)
      if (e.what == device_event::kind::blocks_done) ended[index(e.segment)] += e.blocks;
    CHECK(std::set<std::uint64_t>(ended.begin(), ended.end()) == std::set<std::uint64_t>{300});
    CHECK(d.device.statistics().unknown_words == 0);
    CHECK(d.device.statistics().lost_words == 0);
  }
}

TEST_CASE("D5: submitting, polling and waiting allocate nothing") {
  GSCHED_NEEDS_GPU();
  cuda::program p = stand_ins("p", 40, kernel_of(132, 128, 10));
  cuda::device_options o;
  o.instrumented = true;
  driven_cuda d(o);
  const lane_id a = d.device.open_lane({});
  const lane_id b = d.device.open_lane({});
  d.device.load(p);
  const gsched::program& host = p.host();
  std::size_t submitted = 0;
  std::size_t ended = 0;
  const auto poll_until = [&](std::size_t under_way) {
    std::array<device_event, 64> out;
    const time_point until = d.device.now() + from_us(5e6);
    while (submitted - ended > under_way && d.device.now() < until) {
      d.device.wait(d.device.now() + from_us(100));
      for (std::size_t n = d.device.poll(out); n > 0; n = d.device.poll(out))
        for (std::size_t k = 0; k < n; ++k)
          ended += out[k].what == device_event::kind::segment_done ? 1u : 0u;
    }
  };
  const auto run = [&](std::uint64_t rounds) {
    std::size_t first = 0;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      segment s;
      s.id = segment_id{i};
      s.lane = i % 2 == 0 ? a : b;
      s.program = host.id();
      s.instrumented = i % 3 == 0;
      s.first = static_cast<std::uint32_t>(first);
      const std::size_t last = host.cut(first, from_us(i % 5 == 0 ? 200 : 100));
      s.operations = host.range(first, last);
      first = last == host.size() ? 0 : last;
      if (d.device.submit(s)) FAIL("refused");
      ++submitted;
      poll_until(6);
    }
    poll_until(0);
  };
  run(50);
  const std::size_t before = allocations();
  run(500);
  CHECK(allocations() == before);
  CHECK(ended == 550);
}

TEST_CASE("with nothing in flight, waiting ends on time and never hangs") {
  GSCHED_NEEDS_GPU();
  driven_cuda d;
  static_cast<void>(d.device.open_lane({}));
  d.device.wait(no_deadline); // nothing in flight could end it
  const time_point t = d.device.now();
  d.device.wait(t + from_us(30'000));
  CHECK(d.device.now() >= t + from_us(30'000));
  CHECK(d.device.now() < t + from_us(200'000));
}

TEST_CASE("a device destroyed with work in flight waits for it, briefly") {
  GSCHED_NEEDS_GPU();
  cuda::program p = stand_ins("p", 100, kernel_of(132, 128, 20));
  const auto from = std::chrono::steady_clock::now();
  {
    cuda::device_options o;
    o.instrumented = true;
    driven_cuda d(o);
    const lane_id a = d.device.open_lane({});
    const lane_id b = d.device.open_lane({2, sm_count{}});
    d.device.load(p);
    for (int i = 0; i < 20; ++i) CHECK(!d.submit(i % 2 == 0 ? a : b, p.host(), i % 3 == 0));
  }
  CHECK(std::chrono::steady_clock::now() - from < std::chrono::seconds{10});
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("a moved device continues its work") {
  GSCHED_NEEDS_GPU();
  cuda::program p = stand_ins("p", 10, kernel_of(132, 128, 20));
  cuda::device one;
  const lane_id lane = one.open_lane({});
  one.load(p);
  segment s;
  s.lane = lane;
  s.program = p.host().id();
  s.operations = p.host().range(0, 10);
  CHECK(!one.submit(s));
  cuda::device two = std::move(one);
  std::array<device_event, 4> out;
  std::size_t n = 0;
  for (int i = 0; i < 1000 && n == 0; ++i) {
    two.wait(two.now() + from_us(1000));
    n = two.poll(out);
  }
  CHECK(n == 1);
}

TEST_CASE("two devices at the same time, on two GPUs if there are two") {
  GSCHED_NEEDS_GPU();
  cuda::device_options first;
  cuda::device_options second;
  second.gpu = gpus_here() > 1 ? 1 : 0;
  if (second.gpu == 0) MESSAGE("one GPU here: both devices are on it");
  cuda::program p = stand_ins("p", 20, kernel_of(132, 128, 20));
  REQUIRE(cudaSetDevice(second.gpu) == cudaSuccess);
  cuda::program q = stand_ins("q", 20, kernel_of(132, 128, 20));
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  driven_cuda a(first);
  driven_cuda b(second);
  const lane_id on_a = a.device.open_lane({});
  const lane_id on_b = b.device.open_lane({});
  a.device.load(p);
  b.device.load(q);
  for (int i = 0; i < 200; ++i) {
    CHECK(!a.submit(on_a, p.host()));
    CHECK(!b.submit(on_b, q.host()));
    a.poll();
    b.poll();
  }
  CHECK(a.finish());
  CHECK(b.finish());
  CHECK(a.done == 200);
  CHECK(b.done == 200);
  int current = -1;
  CHECK(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == 0); // unchanged
}

} // namespace
} // namespace gsched::testing
