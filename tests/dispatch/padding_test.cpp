// SPDX-License-Identifier: Apache-2.0
#include "dispatch/much_room.hpp"
#include "dispatch/shared/any_dispatcher.hpp"
#include "dispatch/yielding_device.hpp"

#include "allocations.hpp"

#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/preempt/colocate/exploration.hpp>

#include <doctest/doctest.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

using namespace gsched;

namespace {

using by_class = gsched::priority<fifo, fifo>;

/// Which job ran what, in order of submission.
struct run {
  job_id job{};
  program_id program{};
  std::uint32_t first = 0;
  std::size_t operations = 0;
  lane_id lane{};
};

struct log : silent_listener {
  void on_submit(const job& j, const segment& s, duration, time_point) noexcept {
    runs.push_back({j.id, s.program, s.first, s.operations.size(), s.lane});
  }
  void on_almost_finished(const job& j, void*, duration, time_point) noexcept {
    almost.push_back(j.id);
  }
  void on_end(const job& j, void*, time_point) noexcept { ended.emplace_back(j.id, j.state); }

  std::vector<run> runs;
  std::vector<job_id> almost;
  std::vector<std::pair<job_id, job_state>> ended;
};

/// One best-effort lane, one for real-time work, one for copies.
struct scene {
  explicit scene(dispatch_options o = apart(), yielding_device::options d = {})
      : device(8, d), account(device.limits().sm, device.limits().sms, much_room()),
        made(device, order, account, hears, o) {}

  static dispatch_options apart() {
    dispatch_options o;
    o.lanes = 1;
    o.most_quantum = o.quantum;
    o.preemption.real_time_lanes = 1;
    o.preemption.pads = true;
    return o;
  }

  program& make(std::string name, std::size_t operations, duration each = from_us(10)) {
    operation op;
    op.launch.grid = {132, 1, 1};
    op.launch.block = {128, 1, 1};
    op.launch.registers_per_thread = 32;
    op.expected = each;
    programs.emplace_back(std::move(name), std::vector<operation>(operations, op));
    dispatch.load(programs.back());
    return programs.back();
  }
  model_id model(program& p, byte_count in = {}) {
    bodies.emplace_back([&p, in](job_context& ctx) -> task {
      if (in.count() > 0) ctx.copy_async(ctx.default_stream(), copy_direction::host_to_device, in);
      ctx.launch(p);
      co_return;
    });
    return dispatch.add_model(p.name(), bodies.back(), &p);
  }
  job_id submit(model_id m, service_class of) {
    job_request q;
    q.model = m;
    q.owner = &client_;
    q.service = of;
    q.arrival = device.now();
    return dispatch.submit(q);
  }
  /// Runs real-time jobs one by one until padding is the choice.
  void learn(model_id rt) {
    for (std::uint32_t i = 0; i < exploration::first_jobs; ++i) {
      static_cast<void>(submit(rt, service_class::real_time));
      run_for(from_us(300));
    }
  }
  void run_for(duration d) {
    for (const time_point end = device.now() + d; device.now() < end;)
      if (!dispatch.step()) device.wait(end);
  }
  void finish() {
    while (!dispatch.idle())
      if (!dispatch.step()) {
        REQUIRE_FALSE(dispatch.nothing_in_flight());
        device.wait(no_deadline);
      }
  }
  [[nodiscard]] std::vector<run> runs_of(job_id id) const {
    std::vector<run> all;
    for (const run& r : hears.runs)
      if (r.job == id) all.push_back(r);
    return all;
  }
  [[nodiscard]] job_state how(job_id id) const {
    for (const auto& [job, state] : hears.ended)
      if (job == id) return state;
    return job_state::running;
  }

  yielding_device device;
  by_class order;
  aggregate_accountant account;
  log hears;
  test::shared_dispatcher made;
  test::any_dispatcher& dispatch = *made;
  client& client_ = dispatch.add_client();
  std::deque<program> programs;
  std::deque<std::function<task(job_context&)>> bodies;
};

/// Long jobs that occupy the best-effort lane, one that waits behind them, and a real-time program
/// that carries the operations [0, 3) and [3, 5) of the latter.
struct pair_scene : scene {
  explicit pair_scene(yielding_device::options d = {}, byte_count in = {}) : scene(apart(), d) {
    program& big = make("big", 100);
    program& small = make("small", 5);
    program& fast = make("fast", 10);
    first = &make("fast with small from 0", 10);
    second = &make("fast with small from 3", 10);
    host = model(fast);
    corunner = model(small, in);
    const model_id holder = model(big);
    dispatch.add_padded(fast, small, 0, 3, *first);
    dispatch.add_padded(fast, small, 3, 5, *second);
    for (int i = 0; i < 10; ++i) static_cast<void>(submit(holder, service_class::best_effort));
    run_for(from_us(50));
    waiting = submit(corunner, service_class::best_effort);
    learn(host);
  }
  program* first;
  program* second;
  model_id host, corunner;
  job_id waiting{};
};

} // namespace

TEST_CASE("padding: a job that waits goes with whole real-time programs, stretch by stretch") {
  pair_scene s;
  REQUIRE(s.how(s.waiting) == job_state::running);
  REQUIRE(s.runs_of(s.waiting).empty());
  const job_id one = s.submit(s.host, service_class::real_time);
  s.run_for(from_us(150));
  const job_id two = s.submit(s.host, service_class::real_time);
  s.run_for(from_us(150));
  CHECK(s.runs_of(one).size() == 1);
  const std::vector<run> rode = s.runs_of(s.waiting);
  REQUIRE(rode.size() == 2);
  CHECK(rode[0].first == 0);
  CHECK(rode[0].operations == 3);
  CHECK(rode[1].first == 3);
  CHECK(rode[1].operations == 2);
  CHECK(rode[1].lane == s.runs_of(two)[0].lane);
  CHECK(s.runs_of(one)[0].program == s.first->id());
  CHECK(s.runs_of(two)[0].program == s.second->id());
  CHECK(s.how(s.waiting) == job_state::finished);
  CHECK(s.hears.almost.back() == s.waiting);
  CHECK(s.dispatch.preemption().padded_segments == 2);
  CHECK(s.dispatch.preemption().carried_operations == 5);
  s.dispatch.cancel_all();
  s.finish();
  CHECK(s.account.outstanding() == 0);
  CHECK(s.account.violations().total() == 0);
  CHECK(s.dispatch.statistics().unknown_events == 0);
}

TEST_CASE("padding: a co-runner that is cancelled while it is carried ends with what carries it") {
  pair_scene s;
  static_cast<void>(s.submit(s.host, service_class::real_time));
  s.run_for(from_us(30));
  REQUIRE(s.runs_of(s.waiting).size() == 1);
  CHECK(s.dispatch.cancel(s.waiting));
  CHECK(s.how(s.waiting) == job_state::running);
  s.run_for(from_us(150));
  CHECK(s.how(s.waiting) == job_state::cancelled);
  s.dispatch.cancel_all();
  s.finish();
}

TEST_CASE("padding: where what carries it fails, the co-runner fails too") {
  yielding_device::options d;
  pair_scene s(d);
  const job_id one = s.submit(s.host, service_class::real_time);
  s.run_for(from_us(30));
  REQUIRE(s.runs_of(s.waiting).size() == 1);
  s.device.fail_next();
  s.run_for(from_us(150));
  CHECK(s.how(one) == job_state::failed);
  CHECK(s.how(s.waiting) == job_state::failed);
  s.dispatch.cancel_all();
  s.finish();
}

TEST_CASE(
    "padding: copies of waiting jobs go on beside real-time work, so that they can be carried") {
  pair_scene s({}, byte_count{4096});
  const job_id one = s.submit(s.host, service_class::real_time);
  s.run_for(from_us(150));
  REQUIRE(s.runs_of(s.waiting).size() == 1);
  CHECK(s.runs_of(s.waiting)[0].program == no_program);
  CHECK(s.runs_of(one)[0].lane != s.runs_of(s.waiting)[0].lane);
  static_cast<void>(s.submit(s.host, service_class::real_time));
  s.run_for(from_us(150));
  REQUIRE(s.runs_of(s.waiting).size() == 2);
  CHECK(s.runs_of(s.waiting)[1].operations == 3);
  CHECK(s.dispatch.preemption().side_segments == 0);
  s.dispatch.cancel_all();
  s.finish();
}

TEST_CASE("padding: real-time programs go alone where nothing waits, or what waits has begun") {
  pair_scene s;
  const job_id one = s.submit(s.host, service_class::real_time);
  const job_id two = s.submit(s.host, service_class::real_time); // before the first one has ended
  s.run_for(from_us(400));
  CHECK(s.runs_of(one)[0].program == s.first->id());
  const program_id by = s.runs_of(two)[0].program;
  CHECK((by == s.programs[2].id() || by == s.second->id()));
  s.dispatch.cancel_all();
  s.finish();
}

TEST_CASE("padding: a decision with a co-runner allocates nothing") {
  pair_scene s;
  s.hears.runs.reserve(1000);
  s.hears.almost.reserve(1000);
  s.hears.ended.reserve(1000);
  s.device.reserve_jobs(1000);
  static_cast<void>(s.submit(s.host, service_class::real_time));
  const std::size_t before = gsched::testing::allocations();
  s.run_for(from_us(150));
  CHECK(gsched::testing::allocations() == before);
  CHECK(s.dispatch.preemption().padded_segments == 1);
  s.dispatch.cancel_all();
  s.finish();
}

TEST_CASE("padding: bad programs, each in one line") {
  scene s;
  const program& fast = s.make("fast", 10);
  const program& small = s.make("small", 5);
  const program& right = s.make("right", 10);
  const program& wrong = s.make("wrong", 9);
  const auto refused = [&](auto call) -> std::string {
    try {
      call();
    } catch (const error& e) {
      CHECK(e.code() == errc::bad_option);
      return e.what();
    }
    return "";
  };
  CHECK(refused([&] { s.dispatch.add_padded(fast, small, 0, 5, right); }).empty());
  CHECK(refused([&] { s.dispatch.add_padded(fast, small, 2, 2, right); }) ==
        "right: operations 2 to 2 of small, expected some of its 5");
  CHECK(refused([&] { s.dispatch.add_padded(fast, small, 0, 6, right); }) ==
        "right: operations 0 to 6 of small, expected some of its 5");
  CHECK(refused([&] { s.dispatch.add_padded(fast, small, 0, 5, wrong); }) ==
        "wrong: 9 operations, expected 10 as fast has");
  dispatch_options o = scene::apart();
  o.preemption.pads = false;
  scene plain(o);
  const program& a = plain.make("a", 3);
  CHECK(refused([&] { plain.dispatch.add_padded(a, a, 0, 1, a); }) ==
        "a: expected preemption.pads with padded programs");
}
