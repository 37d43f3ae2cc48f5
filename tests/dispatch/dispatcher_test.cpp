// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rig.hpp"

#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <vector>

using namespace gsched;

namespace {

/// A body that launches one program between two copies, like an inference.
auto inference(const program& p) {
  return [&p](job_context& ctx) -> task {
    const stream_id s = ctx.create_stream();
    ctx.copy_async(s, copy_direction::host_to_device, byte_count{4096});
    ctx.launch(s, p);
    ctx.copy_async(s, copy_direction::device_to_host, byte_count{4096});
    co_await ctx.synchronize(s);
  };
}

} // namespace

TEST_CASE("dispatcher: every job finishes, and counts add up") {
  rig<srpt> r;
  program& p = r.make_program("p", 40, from_us(10));
  auto body = inference(p);
  const model_id m = r.dispatch.add_model("p", body, &p);
  client& c = r.dispatch.add_client();
  for (int i = 0; i < 100; ++i) static_cast<void>(r.dispatch.submit(r.request(m, c)));
  r.run();
  const dispatch_statistics& s = r.dispatch.statistics();
  CHECK(s.submitted == 100);
  CHECK(s.finished == 100);
  CHECK(s.active == 0);
  CHECK(s.operations == 100 * 42);
  CHECK(s.unknown_events == 0);
  CHECK(r.hears.ends.size() == 100);
  CHECK(r.account.outstanding() == 0);
  CHECK(r.account.violations().total() == 0);
}

TEST_CASE("dispatcher: a program is cut into segments of about one quantum") {
  rig<fifo> r;
  program& p = r.make_program("p", 40, from_us(10));
  auto body = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    co_return;
  };
  const model_id m = r.dispatch.add_model("p", body, &p);
  static_cast<void>(r.dispatch.submit(r.request(m, r.dispatch.add_client())));
  r.run();
  CHECK(r.dispatch.statistics().segments == 4);
  for (const auto& s : r.hears.submits) CHECK(s.expected == from_us(100));
}

TEST_CASE("dispatcher: segments double while no other job waits, and only then") {
  dispatch_options o;
  o.most_quantum = from_us(450);
  o.lanes = 1;
  o.segments_per_job = 1;
  rig<fifo> r(o);
  program& p = r.make_program("p", 200, from_us(10));
  auto body = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    co_return;
  };
  const model_id m = r.dispatch.add_model("p", body, &p);
  client& c = r.dispatch.add_client();
  static_cast<void>(r.dispatch.submit(r.request(m, c)));
  r.run();
  std::vector<duration> sizes;
  for (const auto& s : r.hears.submits) sizes.push_back(s.expected);
  CHECK(sizes == std::vector<duration>{from_us(200), from_us(400), from_us(450), from_us(450),
                                       from_us(450), from_us(50)});
  r.hears = {};
  for (int i = 0; i < 3; ++i) static_cast<void>(r.dispatch.submit(r.request(m, c)));
  r.run();
  CHECK(std::count_if(r.hears.submits.begin(), r.hears.submits.end(),
                      [](const auto& s) { return s.expected == from_us(100); }) > 20);
}

TEST_CASE("dispatcher: at most segments_per_job of a job are in flight") {
  for (std::uint32_t most : {1u, 2u, 3u}) {
    dispatch_options o = rig<fifo>::even();
    o.segments_per_job = most;
    o.high_mark = from_us(10000);
    rig<fifo> r(o);
    program& p = r.make_program("p", 100, from_us(10));
    auto body = [&p](job_context& ctx) -> task {
      ctx.launch(p);
      co_return;
    };
    const model_id m = r.dispatch.add_model("p", body, &p);
    static_cast<void>(r.dispatch.submit(r.request(m, r.dispatch.add_client())));
    r.run();
    CHECK(r.hears.most_in_flight == most);
  }
}

TEST_CASE("dispatcher: the shortest remaining job goes first under srpt") {
  dispatch_options o;
  o.lanes = 1;
  rig<srpt> r(o);
  program& big = r.make_program("big", 400, from_us(10));
  program& small = r.make_program("small", 10, from_us(10));
  auto big_body = inference(big);
  auto small_body = inference(small);
  const model_id b = r.dispatch.add_model("big", big_body, &big);
  const model_id s = r.dispatch.add_model("small", small_body, &small);
  client& c = r.dispatch.add_client();
  const job_id first = r.dispatch.submit(r.request(b, c));
  static_cast<void>(r.dispatch.step());
  const job_id second = r.dispatch.submit(r.request(s, c));
  r.run();
  REQUIRE(r.hears.ends.size() == 2);
  CHECK(r.hears.ends[0].id == second);
  CHECK(r.hears.ends[1].id == first);
}

TEST_CASE("dispatcher: almost finished is told once, before the last work is submitted") {
  rig<fifo> r;
  program& p = r.make_program("p", 40, from_us(10));
  auto returns = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    ctx.copy_async(ctx.default_stream(), copy_direction::device_to_host, byte_count{64});
    co_return;
  };
  auto promises = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    ctx.copy_async(ctx.default_stream(), copy_direction::device_to_host, byte_count{64});
    ctx.almost_finished();
    co_await ctx.synchronize();
  };
  auto silent = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    co_await ctx.synchronize();
    ctx.launch(p);
    co_await ctx.synchronize();
  };
  client& c = r.dispatch.add_client();
  for (const auto& [body, expected] :
       {std::pair{job_body(returns), 1}, {job_body(promises), 1}, {job_body(silent), 0}}) {
    const model_id m = r.dispatch.add_model("m", body, &p);
    r.hears = {};
    static_cast<void>(r.dispatch.submit(r.request(m, c)));
    r.run();
    CHECK(r.hears.almost_finished == expected);
    if (expected == 1) {
      CHECK(r.hears.submits_before_almost + 1 == static_cast<int>(r.hears.submits.size()));
    }
  }
}

TEST_CASE("dispatcher: a body that throws ends its job as failed, before and after it suspended") {
  rig<fifo> r;
  program& p = r.make_program("p", 10, from_us(10));
  auto early = [](job_context&) -> task {
    throw std::runtime_error("early");
    co_return;
  };
  auto late = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    co_await ctx.synchronize();
    throw std::runtime_error("late");
  };
  auto with_work = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    throw std::runtime_error("work launched, none dispatched");
    co_return;
  };
  client& c = r.dispatch.add_client();
  for (job_body body : {job_body(early), job_body(late), job_body(with_work)}) {
    const model_id m = r.dispatch.add_model("m", body);
    static_cast<void>(r.dispatch.submit(r.request(m, c)));
  }
  r.run();
  CHECK(r.dispatch.statistics().failed == 3);
  CHECK(r.dispatch.statistics().ended() == r.dispatch.statistics().submitted);
}

TEST_CASE("dispatcher: a job cancelled at any moment ends once, and nothing of it stays") {
  for (int steps = 0; steps < 40; ++steps) {
    rig<srpt> r;
    program& p = r.make_program("p", 100, from_us(10));
    auto guard = std::make_shared<int>(0);
    auto body = [&p, guard](job_context& ctx) -> task {
      const auto held = guard; // a local whose destructor must run
      ctx.launch(p);
      co_await ctx.synchronize();
      ctx.launch(p);
      co_await ctx.synchronize();
    };
    const model_id m = r.dispatch.add_model("m", body, &p);
    client& c = r.dispatch.add_client();
    const job_id other = r.dispatch.submit(r.request(m, c));
    const job_id id = r.dispatch.submit(r.request(m, c));
    for (int i = 0; i < steps; ++i) r.step_once();
    const bool was_active = r.dispatch.statistics().active == 2;
    CHECK(r.dispatch.cancel(id) == was_active);
    CHECK_FALSE(r.dispatch.cancel(id));
    r.run();
    CHECK(r.dispatch.statistics().cancelled == (was_active ? 1 : 0));
    CHECK(r.dispatch.statistics().ended() == 2);
    CHECK(r.account.outstanding() == 0);
    CHECK(guard.use_count() == 2); // the lambda's and ours
    CHECK(std::count_if(r.hears.ends.begin(), r.hears.ends.end(),
                        [&](const auto& e) { return e.id == other; }) == 1);
  }
}

TEST_CASE("dispatcher: beyond max_jobs a job is rejected at once") {
  dispatch_options o;
  o.max_jobs = 3;
  rig<fifo> r(o);
  program& p = r.make_program("p", 10, from_us(10));
  auto body = inference(p);
  const model_id m = r.dispatch.add_model("p", body, &p);
  client& c = r.dispatch.add_client();
  for (int i = 0; i < 5; ++i) static_cast<void>(r.dispatch.submit(r.request(m, c)));
  CHECK(r.dispatch.statistics().rejected == 2);
  r.run();
  CHECK(r.dispatch.statistics().finished == 3);
}

TEST_CASE("dispatcher: edf refuses a deadline that cannot be met, and the body never starts") {
  rig<edf> r;
  program& p = r.make_program("p", 100, from_us(10));
  int started = 0;
  auto body = [&](job_context& ctx) -> task {
    ++started;
    ctx.launch(p);
    co_return;
  };
  const model_id m = r.dispatch.add_model("p", body, &p);
  client& c = r.dispatch.add_client();
  job_request q = r.request(m, c);
  q.deadline = r.device.now() + from_us(900); // it takes 1000
  static_cast<void>(r.dispatch.submit(q));
  q.deadline = r.device.now() + from_us(1100);
  static_cast<void>(r.dispatch.submit(q));
  r.run();
  CHECK(r.dispatch.statistics().rejected == 1);
  CHECK(r.dispatch.statistics().finished == 1);
  CHECK(started == 1);
}

TEST_CASE("dispatcher: host functions run in stream order, and a job of nothing else finishes") {
  rig<fifo> r;
  program& p = r.make_program("p", 10, from_us(10));
  std::vector<int> order;
  struct note {
    std::vector<int>* to;
    int value;
  };
  std::vector<note> notes{{&order, 1}, {&order, 2}};
  const auto add = [](void* n) noexcept {
    const note* one = static_cast<note*>(n);
    one->to->push_back(one->value);
  };
  auto body = [&](job_context& ctx) -> task {
    ctx.call(ctx.default_stream(), {add, &notes[0]});
    ctx.launch(p);
    ctx.call(ctx.default_stream(), {add, &notes[1]});
    co_return;
  };
  auto only_calls = [&](job_context& ctx) -> task {
    ctx.call(ctx.default_stream(), {add, &notes[0]});
    co_await ctx.synchronize();
    ctx.call(ctx.default_stream(), {add, &notes[1]});
  };
  auto nothing = [](job_context&) -> task { co_return; };
  client& c = r.dispatch.add_client();
  const model_id m = r.dispatch.add_model("m", body, &p);
  static_cast<void>(r.dispatch.submit(r.request(m, c)));
  CHECK(order == std::vector<int>{1});
  r.run();
  CHECK(order == std::vector<int>{1, 2});
  order.clear();
  const model_id calls = r.dispatch.add_model("calls", only_calls);
  static_cast<void>(r.dispatch.submit(r.request(calls, c)));
  CHECK(order == std::vector<int>{1, 2});
  const model_id none = r.dispatch.add_model("none", nothing);
  static_cast<void>(r.dispatch.submit(r.request(none, c)));
  CHECK(r.dispatch.statistics().finished == 3);
  CHECK(r.dispatch.statistics().host_calls == 4);
}

TEST_CASE("dispatcher: what the default stream is, the request says") {
  for (const default_stream streams : {default_stream::legacy, default_stream::per_thread}) {
    rig<fifo> r;
    program& p = r.make_program("p", 10, from_us(10));
    auto body = [&p](job_context& ctx) -> task {
      ctx.launch(ctx.create_stream(stream_kind::non_blocking), p); // beside either
      ctx.launch(stream_legacy, p);
      ctx.launch(ctx.default_stream(), p); // behind the legacy stream, as itself or as blocking
      co_return;
    };
    auto beside = [&p](job_context& ctx) -> task {
      ctx.launch(ctx.create_stream(stream_kind::blocking), p);
      ctx.launch(ctx.default_stream(), p); // legacy: behind it; per thread: beside it
      co_return;
    };
    client& c = r.dispatch.add_client();
    for (const auto& [what, at_once] :
         {std::pair{job_body(body), 2u},
          {job_body(beside), streams == default_stream::legacy ? 1u : 2u}}) {
      r.hears = {};
      job_request q = r.request(r.dispatch.add_model("m", what, &p), c);
      q.streams = streams;
      static_cast<void>(r.dispatch.submit(q));
      r.run();
      CHECK(r.hears.most_in_flight == at_once);
    }
    CHECK(r.dispatch.statistics().finished == 2);
  }
}

TEST_CASE("dispatcher: a kernel that fits on no SM is refused when its program is loaded") {
  rig<fifo> r;
  operation op;
  op.launch.block = {1024, 1, 1};
  op.launch.registers_per_thread = 255;
  op.expected = from_us(1);
  program p("wide", {op});
  CHECK_THROWS_AS(r.dispatch.load(p), error);
}

TEST_CASE("dispatcher: with a lane for each client, its jobs run there whatever else is queued") {
  dispatch_options o = rig<fifo>::even();
  o.lanes = 3;
  o.use = lane_use::client;
  rig<fifo> r(o);
  program& p = r.make_program("p", 40, from_us(20));
  auto body = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    co_return;
  };
  const model_id m = r.dispatch.add_model("p", body, &p);
  std::vector<client*> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(&r.dispatch.add_client());
  std::vector<std::uint32_t> client_of;
  for (const int c : {0, 0, 1, 2, 2, 2, 3, 4, 1, 0, 4}) {
    static_cast<void>(r.dispatch.submit(r.request(m, *clients[static_cast<std::size_t>(c)])));
    client_of.push_back(static_cast<std::uint32_t>(c));
  }
  r.run();
  CHECK(r.dispatch.statistics().finished == client_of.size());
  for (const auto& s : r.hears.submits)
    CHECK(s.lane == lane_id{client_of[static_cast<std::size_t>(s.job)] % 3});
}

TEST_CASE("dispatcher: a job that ends in a synchronous call is almost finished before it") {
  rig<fifo> r;
  program& p = r.make_program("p", 40, from_us(10));
  auto body = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    co_await ctx.synchronize();
  };
  const model_id m = r.dispatch.add_model("p", body, &p);
  client& c = r.dispatch.add_client();
  for (int i = 0; i < 20; ++i) {
    static_cast<void>(r.dispatch.submit(r.request(m, c)));
    r.run();
  }
  r.hears = {};
  static_cast<void>(r.dispatch.submit(r.request(m, c)));
  r.run();
  CHECK(r.hears.almost_finished == 1);
  CHECK(r.hears.submits_before_almost + 1 == static_cast<int>(r.hears.submits.size()));
}

TEST_CASE(
    "dispatcher: a job that synchronises between its launches is almost finished at the last") {
  rig<fifo> r;
  program& p = r.make_program("p", 10, from_us(10));
  auto body = [&p](job_context& ctx) -> task {
    for (int i = 0; i < 8; ++i) {
      ctx.launch(p);
      co_await ctx.synchronize();
    }
  };
  const model_id m = r.dispatch.add_model("p", body, &p);
  client& c = r.dispatch.add_client();
  for (int i = 0; i < 400; ++i) { // the number of launches of a job is learned
    static_cast<void>(r.dispatch.submit(r.request(m, c)));
    r.run();
  }
  r.hears = {};
  static_cast<void>(r.dispatch.submit(r.request(m, c)));
  r.run();
  CHECK(r.hears.submits.size() == 8);
  CHECK(r.hears.almost_finished == 1);
  CHECK(r.hears.submits_before_almost == 7);
}
