// SPDX-License-Identifier: Apache-2.0
//
// Random jobs of every kind, cancelled at random, on the simulated GPU and on the null device,
// under every policy: each ends once, the counters add up, and no state remains.
#include "allocations.hpp"
#include "dispatch/rig.hpp"
#include "dispatch/shared/native_dispatchers.hpp"
#include "sanitized.hpp"

#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/notify/flow_control.hpp>
#include <gsched/occupancy/per_sm_accountant.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <tuple>

using namespace gsched;

namespace {

/// The work of a job is drawn when it runs, from its own seed.
struct drawn_job {
  std::uint64_t seed = 0;
};

operation kernel_op(std::mt19937_64& random) {
  operation op;
  op.launch.grid = {static_cast<std::uint32_t>(1 + random() % 300), 1, 1};
  op.launch.block = {static_cast<std::uint32_t>(32 * (1 + random() % 8)), 1, 1};
  op.launch.registers_per_thread = 32;
  op.expected = duration{static_cast<duration::rep>(1000 + random() % 20000)};
  return op;
}

task draw_and_run(job_context& ctx, const program& p) {
  std::mt19937_64 random(static_cast<const drawn_job*>(ctx.user)->seed);
  std::vector<stream_id> streams{ctx.default_stream()};
  for (std::uint64_t n = random() % 4; n > 0; --n)
    streams.push_back(
        ctx.create_stream(random() % 2 ? stream_kind::blocking : stream_kind::non_blocking));
  const event_id e = ctx.create_event();
  const auto any = [&] { return streams[random() % streams.size()]; };
  for (std::uint64_t step = random() % 30; step > 0; --step) {
    switch (random() % 10) {
    case 0: ctx.launch(any(), p); break;
    case 1:
      ctx.copy_async(any(), copy_direction::host_to_device, byte_count{random() % 100000});
      break;
    case 2: ctx.record(e, any()); break;
    case 3: ctx.wait(any(), e); break;
    case 4: co_await ctx.synchronize(any()); break;
    case 5: co_await ctx.synchronize(e); break;
    case 6: ctx.memset_async(any(), byte_count{1 + random() % 5000}); break;
    case 7: ctx.call(any(), {[](void*) noexcept {}, nullptr}); break;
    default: ctx.launch(any(), kernel_op(random)); break;
    }
    if (random() % 200 == 0) throw std::runtime_error("drawn");
  }
  if (random() % 2) co_await ctx.synchronize();
}

struct end_counter : silent_listener {
  std::map<job_id, int> arrivals;
  std::map<job_id, int> ends;
  std::map<segment_id, int> segments;
  int failures = 0;
  void on_arrival(const job& j, void*, time_point) noexcept { ++arrivals[j.id]; }
  void on_submit(const job&, const segment& s, duration, time_point) noexcept { ++segments[s.id]; }
  void on_segment_end(const job&, segment_id s, time_point) noexcept { --segments[s]; }
  void on_failure(const job&, std::exception_ptr why, time_point) noexcept {
    failures += why != nullptr;
  }
  void on_end(const job& j, void*, time_point) noexcept { ++ends[j.id]; }
};

/// Serves random jobs, whose events `hears` counts, until all have ended.
void serve_random(test::any_dispatcher& d, end_counter& hears, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<operation> ops;
  for (int i = 0; i < 60; ++i) {
    ops.push_back(kernel_op(random));
    ops.back().kernel = kernel_id{static_cast<std::uint32_t>(i % 7)};
  }
  program p("p", ops);
  d.load(p);
  auto body = [&p](job_context& ctx) -> task { return draw_and_run(ctx, p); };
  const model_id m = d.add_model("drawn", body, &p, static_cast<std::uint32_t>(seed % 4) * 3);
  std::vector<client*> clients{&d.add_client(), &d.add_client(3.0), &d.add_client(0.5)};
  std::vector<std::unique_ptr<drawn_job>> jobs;
  std::vector<job_id> ids;
  for (int round = 0; round < 400; ++round) {
    if (random() % 3 == 0) {
      jobs.push_back(std::make_unique<drawn_job>(drawn_job{random()}));
      job_request q;
      q.model = m;
      q.owner = clients[random() % clients.size()];
      q.service = random() % 4 ? service_class::best_effort : service_class::real_time;
      q.arrival = d.now();
      if (random() % 2) q.deadline = d.now() + from_us(static_cast<double>(random() % 5000));
      q.user = jobs.back().get();
      ids.push_back(d.submit(q));
    }
    if (!ids.empty() && random() % 10 == 0) static_cast<void>(d.cancel(ids[random() % ids.size()]));
    if (!d.step()) d.wait(d.now() + from_us(static_cast<double>(random() % 200)));
    const dispatch_statistics& s = d.statistics();
    REQUIRE(s.submitted == s.active + s.ended());
  }
  for (int rounds = 0; !d.idle(); ++rounds) {
    REQUIRE(rounds < 200000); // otherwise it hangs
    if (!d.step()) {
      REQUIRE_FALSE(d.nothing_in_flight());
      d.wait(no_deadline);
    }
  }
  const dispatch_statistics& s = d.statistics();
  CHECK(s.submitted == ids.size());
  CHECK(s.ended() == ids.size());
  CHECK(s.finished > 0);
  CHECK(s.failed == static_cast<std::uint64_t>(hears.failures));
  CHECK(s.unknown_events == 0);
  for (const job_id id : ids) {
    CHECK(hears.arrivals[id] == 1);
    CHECK(hears.ends[id] == 1);
  }
  std::uint64_t taken_back = 0;
  for (const auto& [id, open] : hears.segments) taken_back += static_cast<std::uint64_t>(open);
  CHECK(taken_back == s.evicted_segments);
}

template <class P, class Device, class Account, bool Natively = false>
dispatch_statistics storm(Device& device, dispatch_options o, std::uint64_t seed) {
  if (serves_real_time_first<P> && seed % 4 != 0) {
    o.preemption.real_time_lanes = 1 + static_cast<std::uint32_t>(seed % 2);
    o.preemption.floor = seed % 3 == 0 ? 0.1 : 0;
    o.preemption.floor_window = from_us(500);
    if (seed % 5 == 0) o.preemption.side = {sm_count{16}};
  }
  accountant_options room;
  room.max_outstanding = 256;
  Account account(device.limits().sm, device.limits().sms, room);
  P order;
  end_counter hears;
  const test::shared_dispatcher made = [&] {
    if constexpr (Natively)
      return test::native_dispatcher(device, order, account, hears, o);
    else
      return test::shared_dispatcher(device, order, account, hears, o);
  }();
  serve_random(*made, hears, seed);
  CHECK(order.size() == 0);
  CHECK(account.outstanding() == 0);
  CHECK(account.violations().total() == 0);
  CHECK(account.load() == 0.0);
  return made->statistics();
}

using storm_policies = std::tuple<fifo, round_robin, gamma_boost, sjf, srpt, edf, deficit,
                                  deficit_over<srpt>, gsched::priority<edf, deficit_over<srpt>>>;

dispatch_options drawn_options(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  dispatch_options o;
  o.lanes = 1 + static_cast<std::uint32_t>(random() % 4);
  o.segments_per_job = 1 + static_cast<std::uint32_t>(random() % 3);
  o.quantum = from_us(static_cast<double>(5 + random() % 200));
  o.most_quantum = o.quantum * static_cast<int>(1 + random() % 4);
  o.low_mark = from_us(static_cast<double>(random() % 100));
  o.high_mark = o.low_mark + from_us(static_cast<double>(1 + random() % 300));
  o.how = random() % 2 ? submission::graph : submission::launches;
  o.use = random() % 4 ? lane_use::shared : random() % 2 ? lane_use::own : lane_use::client;
  o.evict_on_preempt = random() % 2 == 0;
  o.max_segments = 64;
  o.reserved_jobs = 1 + random() % 4; // so that it grows
  o.reserved_entries = 16;
  if (seed % 3 == 0) { // a job of this model runs alone
    o.corun = {std::make_shared<const corun_rule>(
                   std::array<corun_limit, 1>{{{"drawn", 1.2}}},
                   std::array<corun_slowdown, 1>{{{"drawn", "drawn", 1.3}}}),
               o.quantum};
  }
  return o;
}

} // namespace

TEST_CASE_TEMPLATE_DEFINE("storm: random jobs on the simulated GPU end once each", P, on_sim) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    sim::device device(sim::h200());
    storm<P, sim::device, aggregate_accountant, true>(device, drawn_options(seed), seed);
  }
}
TEST_CASE_TEMPLATE_APPLY(on_sim, storm_policies);

TEST_CASE_TEMPLATE_DEFINE("storm: random jobs on the null device end once each", P, on_null) {
  for (std::uint64_t seed = 100; seed < 112; ++seed) {
    CAPTURE(seed);
    const dispatch_options o = drawn_options(seed);
    null_device device({limits_for(9, 0), sm_count{132}, o.lanes + 3}, from_us(20));
    storm<P, null_device, aggregate_accountant>(device, o, seed);
  }
}
TEST_CASE_TEMPLATE_APPLY(on_null, storm_policies);

// Most tests of this folder run on shared dispatchers.
TEST_CASE_TEMPLATE_DEFINE("storm: a shared dispatcher serves as the policy's own", P, as_native) {
  for (std::uint64_t seed = 200; seed < 203; ++seed) {
    CAPTURE(seed);
    sim::device device(sim::h200()), other(sim::h200());
    const dispatch_options o = drawn_options(seed);
    const dispatch_statistics own =
        storm<P, sim::device, aggregate_accountant, true>(device, o, seed);
    const dispatch_statistics shared = storm<P, sim::device, aggregate_accountant>(other, o, seed);
    CHECK(own.submitted == shared.submitted);
    CHECK(own.decisions == shared.decisions);
    CHECK(own.segments == shared.segments);
    CHECK(own.operations == shared.operations);
    CHECK(own.evicted_segments == shared.evicted_segments);
    CHECK(own.finished == shared.finished);
    CHECK(own.rejected == shared.rejected);
    CHECK(own.cancelled == shared.cancelled);
    CHECK(own.failed == shared.failed);
    CHECK(device.now() == other.now());
  }
}
TEST_CASE_TEMPLATE_APPLY(as_native, storm_policies);

TEST_CASE("storm: instrumented segments and the per-SM accountant agree block by block") {
  for (std::uint64_t seed = 0; seed < (testing::sanitized ? 3 : 12); ++seed) {
    CAPTURE(seed);
    sim::device device(sim::h200());
    dispatch_options o = drawn_options(seed);
    o.instrumented = true;
    storm<deficit_over<srpt>, sim::device, per_sm_accountant>(device, o, seed);
  }
}

TEST_CASE("storm: eviction does take work back") {
  std::uint64_t evicted = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    sim::device device(sim::h200());
    dispatch_options o;
    o.lanes = 1;
    o.high_mark = from_us(1000);
    o.segments_per_job = 6;
    o.evict_on_preempt = true;
    aggregate_accountant account(device.limits().sm, device.limits().sms);
    using two_classes_policy = gsched::priority<fifo, fifo>;
    two_classes_policy order;
    silent_listener hears;
    const test::shared_dispatcher made(device, order, account, hears, o);
    test::any_dispatcher& d = *made;
    std::mt19937_64 random(seed);
    std::vector<operation> ops(200, kernel_op(random));
    for (operation& op : ops) op.expected = from_us(10);
    program p("p", ops);
    d.load(p);
    auto body = [&p](job_context& ctx) -> task {
      ctx.launch(p);
      co_return;
    };
    const model_id m = d.add_model("p", body, &p);
    job_request q;
    q.model = m;
    q.owner = &d.add_client();
    static_cast<void>(d.submit(q));
    for (int i = 0; i < 3; ++i)
      if (!d.step()) device.wait(device.now() + from_us(50));
    q.service = service_class::real_time;
    static_cast<void>(d.submit(q));
    while (!d.idle())
      if (!d.step()) device.wait(no_deadline);
    CHECK(d.statistics().finished == 2);
    CHECK(d.statistics().operations == 400); // nothing ran twice, nothing was lost
    evicted += d.statistics().evicted_segments;
  }
  CHECK(evicted > 0);
}

TEST_CASE("dispatcher: no allocation in steady state, on the simulated GPU") {
  sim::device device(sim::h200());
  aggregate_accountant account(device.limits().sm, device.limits().sms);
  deficit_over<srpt> order;
  silent_listener hears;
  const test::shared_dispatcher made(device, order, account, hears);
  test::any_dispatcher& d = *made;
  std::mt19937_64 random(5);
  std::vector<operation> ops;
  for (int i = 0; i < 100; ++i) ops.push_back(kernel_op(random));
  program p("p", ops);
  d.load(p);
  auto body = [&p](job_context& ctx) -> task {
    const stream_id s = ctx.create_stream();
    ctx.copy_async(s, copy_direction::host_to_device, byte_count{4096});
    ctx.launch(s, p);
    co_await ctx.synchronize(s);
    co_await ctx.copy(copy_direction::device_to_host, byte_count{4096});
  };
  const model_id m = d.add_model("p", body, &p);
  std::vector<client*> clients{&d.add_client(), &d.add_client()};
  std::uint64_t n = 0;
  const auto run_until = [&](std::uint64_t finished) {
    while (d.statistics().finished < finished) {
      while (d.statistics().active < 20) {
        job_request q;
        q.model = m;
        q.owner = clients[n++ % clients.size()];
        q.arrival = device.now();
        static_cast<void>(d.submit(q));
      }
      if (!d.step()) device.wait(no_deadline);
    }
  };
  run_until(500);
  const std::size_t before = gsched::testing::allocations();
  run_until(1500);
  CHECK(gsched::testing::allocations() == before);
}
