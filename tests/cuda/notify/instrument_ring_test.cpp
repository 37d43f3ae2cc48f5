// SPDX-License-Identifier: Apache-2.0
#include "instrument_rig.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace {

using namespace gsched;
using testing::body;
using testing::rig;
using testing::shape;

shape of(body how, unsigned blocks, unsigned threads, std::uint32_t argument = 5) {
  shape s;
  s.how = how;
  s.grid = blocks;
  s.block = threads;
  s.argument = argument;
  return s;
}

/// Shapes of a mix of kernels, each with its group size.
struct choice {
  shape what;
  std::uint32_t group;
};

choice draw(std::mt19937_64& random) {
  constexpr body bodies[] = {body::straight, body::scattered_return, body::warps_return,
                             body::first_returns, body::loop_return};
  constexpr unsigned threads[] = {1, 32, 64, 100, 128, 256, 1024};
  constexpr std::uint32_t groups[] = {0, 1, 2, 7, 16};
  const auto pick = [&](auto& from) { return from[random() % std::size(from)]; };
  const auto blocks = static_cast<unsigned>(1 + random() % (random() % 4 == 0 ? 3000 : 200));
  return {of(pick(bodies), blocks, pick(threads)), pick(groups)};
}

} // namespace

TEST_CASE("a ring refuses bad options by name") {
  GSCHED_NEEDS_GPU();
  CHECK_THROWS_AS(cuda::notification_ring(0, 100), error);
  CHECK_THROWS_AS(cuda::notification_ring(0, cuda::notification_ring::max_slots * 2), error);
  cuda::notification_ring ring(0, 64);
  CHECK_THROWS_AS(static_cast<void>(ring.take_slot(0)), error);
  CHECK_THROWS_AS(static_cast<void>(ring.take_slot(17)), error);
  CHECK_THROWS_AS(static_cast<void>(ring.take_slot(17, 100)), error);
  const auto s = ring.take_slot(7);
  CHECK(ring.words_of(s, 1) == 2);
  CHECK(ring.words_of(s, 7) == 2);
  CHECK(ring.words_of(s, 8) == 4);
  CHECK(ring.words_of(ring.take_slot(7, 1000), 14) == 4);
  const std::uint64_t small = cuda::every_block_up_to;
  CHECK(ring.words_of(ring.take_slot(0, small), small) == 2 * small);
  CHECK(ring.words_of(ring.take_slot(0, small + 1), 4800) == 600);
  CHECK(cuda::notification_ring::slot_of(ring.count_launch(s)) == s);
  CHECK((ring.count_launch(s) & 0xfff) == 1);
}

TEST_CASE("slots are taken while kernels run, in more than one chunk") {
  GSCHED_NEEDS_GPU();
  rig r(std::size_t{1} << 12);
  const shape slow = of(body::slow, 1, 32, 200'000'000); // 0.2 s
  cuda::check(launch(slow, r.stream, {}, r.room_for(slow.threads())), "slow");
  std::vector<cuda::launch_slot> taken;
  for (int i = 0; i < 3000; ++i) taken.push_back(r.ring.take_slot(16));
  CHECK(cudaStreamQuery(r.stream) == cudaErrorNotReady); // taking slots did not wait for the kernel
  r.done("slow");
  CHECK(r.ring.memory() > 3000 * sizeof(cuda::launch_counters));
  const shape s = of(body::straight, 40, 64);
  for (const std::size_t at : {std::size_t{0}, std::size_t{1024}, std::size_t{2999}}) {
    r.book.expect(taken[at], s.blocks(), 16);
    static_cast<void>(r.result(s, r.ring.report_of(taken[at]), "slots"));
    CHECK(r.book.launches_of(taken[at]) == 1);
  }
  for (const auto t : taken) r.ring.give_back(t);
  CHECK(r.book.clean());
}

TEST_CASE("kernels on many streams at once do not mix their words") {
  GSCHED_NEEDS_GPU();
  rig r(std::size_t{1} << 17);
  while (r.streams.size() < 16) static_cast<void>(r.make_stream());
  std::mt19937_64 random(7);
  std::uint32_t* const out = r.room_for(3200 * 1024);
  std::uint64_t words = 0;
  std::vector<cuda::launch_slot> slots;
  for (int round = 0; round < 20; ++round) {
    for (const cudaStream_t stream : r.streams) {
      const choice c = draw(random);
      slots.push_back(r.slot_for(c.what, c.group));
      words += r.ring.words_of(slots.back(), c.what.blocks());
      cuda::check(launch(c.what, stream, r.ring.report_of(slots.back()), out), "launch");
    }
    r.done("streams");
    CHECK(r.book.words == words);
  }
  CHECK(r.book.launches == 20 * r.streams.size());
  CHECK(r.book.clean());
  CHECK(r.ring.reader().counts().intact());
}

TEST_CASE("a graph launched a thousand times is a thousand launches") {
  GSCHED_NEEDS_GPU();
  rig r(std::size_t{1} << 18);
  const cuda::driver_functions& cu = cuda::driver();
  std::mt19937_64 random(11);
  std::uint32_t* const out = r.room_for(3200 * 1024);
  std::vector<cuda::launch_slot> slots;
  std::uint64_t words = 0;
  cuda::check(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < 6; ++i) {
    const choice c = draw(random);
    slots.push_back(r.slot_for(c.what, c.group)); // does not invalidate the capture
    words += r.ring.words_of(slots.back(), c.what.blocks());
    cuda::check(launch(c.what, r.stream, r.ring.report_of(slots.back()), out), "capture");
  }
  cudaGraph_t graph = nullptr;
  cuda::check(cudaStreamEndCapture(r.stream, &graph), "capture");
  CUgraphExec exec = nullptr;
  cuda::check(cu.cuGraphInstantiateWithFlags(&exec, graph, 0), "graph");
  constexpr int replays = 5000; // the replay number wraps around
  for (int i = 0; i < replays; ++i) {
    cuda::check(cu.cuGraphLaunch(exec, r.stream), "graph");
    if (i % 4 == 3) r.done("graph"); // never more words than the ring has slots
  }
  r.done("graph");
  CHECK(r.book.words == replays * words);
  for (const auto s : slots) CHECK(r.book.launches_of(s) == replays);
  CHECK(r.book.clean());
  CHECK(r.ring.reader().counts().intact());
  cuda::check(cu.cuGraphExecDestroy(exec), "graph");
  cuda::check(cu.cuGraphDestroy(graph), "graph");
}

TEST_CASE("with flow control a small ring loses nothing") {
  GSCHED_NEEDS_GPU();
  rig r(1024);
  while (r.streams.size() < 4) static_cast<void>(r.make_stream());
  std::mt19937_64 random(3);
  std::uint32_t* const out = r.room_for(600 * 1024);
  struct flight {
    cuda::launch_slot slot;
    std::uint64_t words;
  };
  std::deque<flight> flying;
  std::uint64_t words = 0;
  std::uint64_t held = 0;
  for (int i = 0; i < 4000; ++i) {
    choice c = draw(random);
    c.what.grid.x = 1 + c.what.grid.x % 500;
    const cuda::launch_slot slot = r.slot_for(c.what, c.group);
    const std::uint64_t needs = r.ring.words_of(slot, c.what.blocks());
    r.ring.flow().expect_fits(needs);
    bool waited = false;
    const testing::time_limit limit("flow control");
    while (!r.ring.flow().try_reserve(needs)) {
      waited = true;
      limit.look();
      static_cast<void>(r.ring.reader().drain(r.book));
      while (!flying.empty() && r.book.launches_of(flying.front().slot) == 1) {
        r.ring.flow().release(flying.front().words);
        r.ring.give_back(flying.front().slot);
        flying.pop_front();
      }
    }
    held += waited;
    words += needs;
    flying.push_back({slot, needs});
    cuda::check(
        launch(c.what, r.streams[static_cast<std::size_t>(i) % 4], r.ring.report_of(slot), out),
        "launch");
  }
  r.done("flow control");
  CHECK(held > 100); // else nothing was tested
  CHECK(r.book.words == words);
  CHECK(r.book.launches == 4000);
  CHECK(r.book.clean());
  CHECK(r.ring.reader().counts().intact());
  CHECK(r.ring.flow().violations() == 0);
}

TEST_CASE("without flow control, lost words are counted") {
  GSCHED_NEEDS_GPU();
  rig r(64);
  const shape s = of(body::straight, 1000, 64);
  const cuda::launch_slot slot = r.slot_for(s, 1);
  cuda::check(launch(s, r.stream, r.ring.report_of(slot), r.room_for(s.threads())), "launch");
  cuda::check(cudaStreamSynchronize(r.stream), "launch");
  r.ring.reader().finalise(2000, r.book);
  const ring_counts& counts = r.ring.reader().counts();
  CHECK(counts.tickets() == 2000);
  CHECK_FALSE(counts.intact());
  CHECK(counts.read >= 1);
  CHECK(counts.read <= 64);
  CHECK(counts.invalid == 0);
}
