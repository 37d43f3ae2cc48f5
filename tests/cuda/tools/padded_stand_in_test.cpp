// SPDX-License-Identifier: Apache-2.0
#include "cuda/needs_gpu.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/device.hpp>
#include <gsched/cuda_tools/padded_stand_in.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/priority.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gsched {
namespace {

profile chain(std::string name, std::size_t kernels, std::uint32_t blocks, duration each) {
  profile p;
  p.model = std::move(name);
  for (std::size_t i = 0; i < kernels; ++i) {
    profile_operation& op = p.operations.emplace_back();
    op.work.launch.grid = {blocks, 1, 1};
    op.work.launch.block = {256, 1, 1};
    op.work.launch.registers_per_thread = 32;
    op.work.expected = each;
    if (i > 0) op.after = {static_cast<std::uint32_t>(i - 1)};
  }
  return p;
}

TEST_CASE("padded stand-ins: co-runners of narrow kernels cost them little") {
  GSCHED_NEEDS_GPU();
  const profile narrow = chain("narrow", 20, 32, from_us(20)),
                small = chain("small", 12, 64, from_us(8));
  cuda::padded_stand_ins pads(level_rule::needed);
  const std::size_t host = pads.add(narrow), corunner = pads.add(small);
  const std::vector<pad_part> parts = pads.plan(host, corunner, 2);
  REQUIRE(parts.size() == 10);
  CHECK(parts.front().corunner_operation == 2);
  CHECK(parts.back().corunner_operation == 11);
  cuda::program made = pads.make(host, corunner, parts);
  CHECK(made.host().size() == 20);
  CHECK(made.host().is_whole());
  CHECK(made.host().operations()[0].launch.blocks() == 96);
  CHECK(made.host().operations()[19].launch.blocks() == 32);
  const duration longer = pads.longer(host, made);
  MESSAGE("longer by " << to_us(longer) << " us of 400");
  CHECK(longer < from_us(20));
  CHECK(longer > from_us(-20));
}

TEST_CASE("padded stand-ins: programs that are not chains are not padded") {
  GSCHED_NEEDS_GPU();
  profile forked = chain("forked", 4, 32, from_us(20));
  forked.operations[3].after = {1, 2};
  forked.operations[2].after = {0};
  const profile small = chain("small", 4, 32, from_us(5));
  cuda::padded_stand_ins pads;
  const std::size_t a = pads.add(forked), b = pads.add(small);
  CHECK(pads.plan(a, b, 0).empty());
  CHECK(pads.plan(b, a, 0).empty());
}

TEST_CASE("prepare: ranges that begin within grains are built before they are submitted") {
  GSCHED_NEEDS_GPU();
  cuda::program p = cuda::make_stand_in(chain("p", 40, 32, from_us(10)));
  cuda::device_options o;
  o.grain = from_us(100);
  cuda::device on(o);
  const lane_id lane = on.open_lane({});
  CHECK_THROWS_AS(on.prepare(p.host(), 0, 1), error);
  on.load(p);
  CHECK_THROWS_AS(on.prepare(p.host(), 3, 3), error);
  CHECK_THROWS_AS(on.prepare(p.host(), 3, 41), error);
  const auto end = p.host().cut(3, from_us(100));
  const auto run = [&](std::size_t first, std::size_t last) {
    segment s;
    s.id = segment_id{1};
    s.lane = lane;
    s.program = p.host().id();
    s.first = static_cast<std::uint32_t>(first);
    s.operations = p.host().range(first, last);
    REQUIRE_FALSE(on.submit(s));
    device_event e{};
    while (on.poll({&e, 1}) == 0) on.wait(on.now() + from_us(1000));
    CHECK(e.what == device_event::kind::segment_done);
  };
  on.prepare(p.host(), 3, end);
  run(3, end);
  CHECK(on.statistics().built_late == 0);
  run(4, end);
  CHECK(on.statistics().built_late == 1);
}

TEST_CASE("padding on a GPU: co-runners run to their end, and no operation is lost") {
  GSCHED_NEEDS_GPU();
  const profile fast = chain("fast", 20, 32, from_us(20)), slow = chain("slow", 12, 64, from_us(8)),
                big = chain("big", 100, 132, from_us(20));
  cuda::program host = cuda::make_stand_in(fast), corunner = cuda::make_stand_in(slow),
                holder = cuda::make_stand_in(big);
  cuda::padded_stand_ins pads(level_rule::needed);
  const std::size_t h = pads.add(fast), g = pads.add(slow);
  const std::vector<pad_part> parts = pads.plan(h, g, 0);
  REQUIRE(!parts.empty());
  const std::uint32_t to = parts.back().corunner_operation + 1;
  REQUIRE(to == 12);
  cuda::program padded = pads.make(h, g, parts);

  using order_type = gsched::priority<fifo, fifo>;
  cuda::device_options d;
  d.whole = true;
  cuda::device on(d);
  order_type order;
  aggregate_accountant account(on.limits().sm, on.limits().sms);
  silent_listener hears;
  dispatch_options o;
  o.lanes = 1;
  o.preemption.real_time_lanes = 1;
  o.preemption.pads = true;
  dispatcher<order_type, cuda::device, aggregate_accountant> dispatch(on, order, account, hears, o);
  std::vector<std::function<task(job_context&)>> bodies;
  std::vector<model_id> models;
  bodies.reserve(3);
  for (cuda::program* p : {&host, &corunner, &holder}) {
    dispatch.load(p->host());
    program& of = p->host();
    bodies.emplace_back([&of](job_context& ctx) -> task {
      ctx.launch(of);
      co_return;
    });
    models.push_back(dispatch.add_model(of.name(), bodies.back(), &of, 1));
  }
  dispatch.load(padded.host());
  dispatch.add_padded(host.host(), corunner.host(), 0, to, padded.host());
  client& c = dispatch.add_client();
  const auto submit = [&](std::size_t m, service_class of) {
    job_request q;
    q.model = models[m];
    q.owner = &c;
    q.service = of;
    q.arrival = on.now();
    static_cast<void>(dispatch.submit(q));
  };
  const auto run_for = [&](duration t) {
    for (const time_point end = on.now() + t; on.now() < end;)
      if (!dispatch.step()) on.wait(end);
  };
  // Where the first padded job is slow, padding is given up for 512 jobs.
  constexpr std::uint64_t least = 60, most = 2000;
  std::uint64_t rounds = 0;
  for (; rounds < least || (dispatch.preemption().padded_segments <= 10 && rounds < most);
       ++rounds) {
    submit(2, service_class::best_effort); // occupies the lane
    run_for(from_us(100));
    submit(1, service_class::best_effort);
    submit(0, service_class::real_time);
    while (!dispatch.idle()) // so that each round begins on an idle GPU
      if (!dispatch.step()) on.wait(no_deadline);
  }
  CHECK(dispatch.statistics().finished == 3 * rounds);
  MESSAGE(rounds << " rounds, " << dispatch.preemption().padded_segments << " padded");
  CHECK(dispatch.preemption().padded_segments > 10);
  CHECK(dispatch.preemption().carried_operations == 12 * dispatch.preemption().padded_segments);
  CHECK(dispatch.statistics().unknown_events == 0);
}

} // namespace
} // namespace gsched
