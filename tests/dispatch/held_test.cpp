// SPDX-License-Identifier: Apache-2.0
// Jobs that are held until they are released, and jobs that follow others.
#include "allocations.hpp"
#include "dispatch/rig.hpp"
#include "sanitized.hpp"

#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <exception>
#include <map>
#include <string>
#include <vector>

using namespace gsched;

namespace {

/// Records the order in which bodies start, and the reasons of failed and unstarted jobs.
struct start_listener : recording_listener {
  std::map<job_id, std::string> lines;
  void on_failure(const job& j, std::exception_ptr why, time_point) noexcept {
    try {
      std::rethrow_exception(why);
    } catch (const std::exception& e) {
      lines[j.id] = e.what();
    }
  }
  [[nodiscard]] job_state end_of(job_id id) const {
    for (const ended& e : ends)
      if (e.id == id) return e.how;
    return job_state::running;
  }
};

/// A dispatcher with one model, whose bodies count their starts.
struct held_rig : rig<fifo, start_listener> {
  explicit held_rig(const dispatch_options& o = even(), std::uint32_t instances = 0)
      : rig(o), p(make_program("p", 4, from_us(20))),
        m(dispatch.add_model("m", body, &p, instances)), c(dispatch.add_client()) {}

  [[nodiscard]] job_id submit(bool held, std::optional<job_id> after = {}) {
    job_request q = request(m, c);
    q.held = held;
    q.after = after;
    return dispatch.submit(q);
  }
  /// Runs until nothing is in flight and nothing is to do.
  void run_until_idle() {
    while (dispatch.step() || !dispatch.nothing_in_flight())
      if (!dispatch.nothing_in_flight()) device.wait(no_deadline);
  }

  struct counting {
    held_rig& r;
    task operator()(job_context& ctx) {
      ++r.started;
      ctx.launch(r.p);
      co_return;
    }
  };
  int started = 0;
  counting body{*this};
  program& p;
  model_id m;
  client& c;
};

} // namespace

TEST_CASE("held: a job does not start, takes no instance and is in no policy before its release") {
  held_rig r(held_rig::even(), 1);
  const job_id held = r.submit(true);
  CHECK(r.dispatch.held() == 1);
  r.run_until_idle();
  CHECK(r.started == 0);
  CHECK(r.order.size() == 0);
  CHECK(r.dispatch.statistics().active == 1);
  const job_id other = r.submit(false); // the instance is free
  r.run_until_idle();
  CHECK(r.hears.end_of(other) == job_state::finished);
  CHECK(r.hears.end_of(held) == job_state::running);
  CHECK(r.dispatch.release(held));
  CHECK(r.dispatch.held() == 0);
  CHECK_FALSE(r.dispatch.release(held));
  r.run_until_idle();
  CHECK(r.started == 2);
  CHECK(r.hears.end_of(held) == job_state::finished);
  CHECK_FALSE(r.dispatch.release(held));
  CHECK_FALSE(r.dispatch.release(job_id{99}));
  CHECK(r.dispatch.statistics().finished == 2);
}

TEST_CASE("held: a job that is cancelled or failed ends at once") {
  held_rig r;
  const job_id cancelled = r.submit(true);
  const job_id failed = r.submit(true);
  CHECK(r.dispatch.cancel(cancelled));
  CHECK(r.hears.end_of(cancelled) == job_state::cancelled);
  CHECK(r.dispatch.fail(failed, std::make_exception_ptr(error(errc::io, "the event"))));
  CHECK(r.hears.end_of(failed) == job_state::failed);
  CHECK(r.hears.lines[failed].find("the event") == 0);
  CHECK_FALSE(r.dispatch.fail(failed, {}));
  CHECK_FALSE(r.dispatch.release(cancelled));
  CHECK(r.dispatch.held() == 0);
  CHECK(r.dispatch.idle());
  CHECK(r.started == 0);
}

TEST_CASE("held: what runs may be failed too, and ends when it has left the device") {
  held_rig r;
  const job_id id = r.submit(false);
  static_cast<void>(r.dispatch.step());
  CHECK_FALSE(r.dispatch.nothing_in_flight());
  CHECK(r.dispatch.fail(id, std::make_exception_ptr(error(errc::io, "asked for"))));
  CHECK(r.hears.end_of(id) == job_state::running);
  r.run_until_idle();
  CHECK(r.hears.end_of(id) == job_state::failed);
}

TEST_CASE("held: real-time jobs that are held, or follow one, do not hold up best-effort ones") {
  using both = gsched::priority<edf, fifo>;
  sim::device device(sim::h200());
  both order;
  aggregate_accountant account(device.limits().sm, device.limits().sms);
  recording_listener hears;
  dispatch_options o;
  o.preemption.real_time_lanes = 1;
  const test::shared_dispatcher made(device, order, account, hears, o);
  test::any_dispatcher& d = *made;
  operation op;
  op.launch.grid = {132, 1, 1};
  op.launch.block = {128, 1, 1};
  op.launch.registers_per_thread = 32;
  op.expected = from_us(50);
  program p("p", std::vector<operation>(200, op));
  d.load(p);
  auto body = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    co_return;
  };
  const model_id m = d.add_model("m", body, &p);
  job_request q;
  q.model = m;
  q.owner = &d.add_client();
  q.service = service_class::real_time;
  q.held = true;
  const job_id held = d.submit(q);
  q.held = false;
  q.after = held;
  const job_id after = d.submit(q);
  q.after.reset();
  q.service = service_class::best_effort;
  static_cast<void>(d.submit(q));
  const auto run = [&] {
    while (d.step() || !d.nothing_in_flight())
      if (!d.nothing_in_flight()) device.wait(no_deadline);
  };
  run();
  CHECK(d.statistics().finished == 1);
  CHECK(d.preemption().preemptions.count == 0);
  static_cast<void>(d.release(held));
  run();
  CHECK(d.statistics().finished == 3);
  CHECK(hears.ends.back().id == after);
}

TEST_CASE("after: a job starts once the one that it follows has finished") {
  held_rig r;
  const job_id first = r.submit(false);
  const job_id second = r.submit(false, first);
  const job_id third = r.submit(false, second);
  const job_id beside = r.submit(false, first);
  CHECK(r.started == 1);
  r.run_until_idle();
  CHECK(r.started == 4);
  REQUIRE(r.hears.ends.size() == 4);
  CHECK(r.hears.ends[0].id == first);
  CHECK(r.hears.ends[1].id == second);
  CHECK(r.hears.ends[2].id == beside);
  CHECK(r.hears.ends[3].id == third);
  const job_id late = r.submit(false, first); // it ended long ago, and counts as finished
  const job_id unknown = r.submit(false, job_id{12345});
  const job_id itself = r.submit(false, job_id{6});
  CHECK(itself == job_id{6});
  r.run_until_idle();
  for (const job_id id : {late, unknown, itself}) CHECK(r.hears.end_of(id) == job_state::finished);
}

TEST_CASE("after: a job that is held too waits for both, whichever comes first") {
  held_rig r;
  for (const bool release_first : {false, true}) {
    const job_id first = r.submit(false);
    const job_id both = r.submit(true, first);
    if (release_first) {
      CHECK(r.dispatch.release(both));
      CHECK(r.dispatch.held() == 0);
    }
    r.run_until_idle();
    CHECK(r.hears.end_of(first) == job_state::finished);
    if (!release_first) {
      CHECK(r.hears.end_of(both) == job_state::running);
      CHECK(r.dispatch.release(both));
      r.run_until_idle();
    }
    CHECK(r.hears.end_of(both) == job_state::finished);
  }
}

TEST_CASE("after: a job whose predecessor does not finish is cancelled, and it is said why") {
  dispatch_options o = held_rig::even();
  o.max_jobs = 6;
  held_rig r(o);
  auto throws = [](job_context&) -> task {
    throw error(errc::io, "thrown");
    co_return;
  };
  const model_id bad = r.dispatch.add_model("bad", throws);
  const job_id cancelled = r.submit(true);
  const job_id after_cancelled = r.submit(false, cancelled);
  const job_id after_that = r.submit(true, after_cancelled);
  job_request q = r.request(bad, r.c);
  q.held = true;
  const job_id failed = r.dispatch.submit(q);
  const job_id after_failed = r.submit(true, failed);
  CHECK(r.dispatch.cancel(cancelled));
  CHECK(r.dispatch.release(failed));
  CHECK(r.hears.end_of(failed) == job_state::failed);
  r.run_until_idle();
  for (const job_id id : {after_cancelled, after_that, after_failed})
    CHECK(r.hears.end_of(id) == job_state::cancelled);
  CHECK(r.hears.lines[after_cancelled] == "its predecessor was cancelled");
  CHECK(r.hears.lines[after_that] == "its predecessor was cancelled");
  CHECK(r.hears.lines[after_failed] == "its predecessor failed");
  CHECK(r.started == 0);
  CHECK(r.dispatch.held() == 0);
  CHECK(r.dispatch.idle());
}

TEST_CASE("after: a job that its policy rejects at its release cancels those that follow it") {
  rig<edf, start_listener> r;
  program& p = r.make_program("p", 100, from_us(20));
  auto body = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    co_return;
  };
  const model_id m = r.dispatch.add_model("m", body, &p);
  client& c = r.dispatch.add_client();
  job_request q = r.request(m, c);
  q.held = true;
  q.deadline = r.device.now() + from_us(3000);
  const job_id held = r.dispatch.submit(q); // in time, by its estimate
  q.held = false;
  q.after = held;
  const job_id follows = r.dispatch.submit(q);
  q.deadline = r.device.now() + from_us(1000);
  const job_id hopeless = r.dispatch.submit(q);
  CHECK(r.hears.end_of(hopeless) == job_state::rejected);
  r.device.wait(r.device.now() + from_us(2000));
  CHECK(r.dispatch.release(held)); // too late now
  CHECK(r.hears.end_of(held) == job_state::rejected);
  while (r.dispatch.step()) {
  }
  CHECK(r.hears.end_of(follows) == job_state::cancelled);
  CHECK(r.hears.lines[follows] == "its predecessor was rejected");
  CHECK(r.dispatch.idle());
}

TEST_CASE("after: chains of any length neither recurse nor leave anybody behind") {
  constexpr int length = testing::sanitized ? 60'000 : 200'000; // deeper than any stack
  for (const bool finishes : {true, false}) {
    held_rig r;
    auto empty = [](job_context&) -> task { co_return; };
    const model_id m = r.dispatch.add_model("empty", empty);
    job_request q = r.request(m, r.c);
    q.held = true;
    const job_id first = r.dispatch.submit(q);
    q.held = false;
    q.after = first;
    for (int i = 1; i < length; ++i) q.after = r.dispatch.submit(q);
    CHECK((finishes ? r.dispatch.release(first) : r.dispatch.cancel(first)));
    r.run_until_idle();
    CHECK(r.dispatch.idle());
    const dispatch_statistics& s = r.dispatch.statistics();
    CHECK((finishes ? s.finished : s.cancelled) == length);
    CHECK(r.hears.ends.size() == length);
  }
}

TEST_CASE("after: everything is cancelled at once, and a dispatcher may go with what waits") {
  held_rig r;
  const job_id first = r.submit(true);
  std::optional<job_id> last = first;
  for (int i = 0; i < 20; ++i) last = r.submit(i % 2 == 0, i % 3 == 0 ? first : last);
  r.dispatch.cancel_all();
  CHECK(r.dispatch.idle());
  CHECK(r.dispatch.statistics().cancelled == 21);
  CHECK(r.dispatch.held() == 0);
  static_cast<void>(r.dispatch.step());
  last = r.submit(true);
  for (int i = 0; i < 5; ++i) last = r.submit(false, last);
}

TEST_CASE("held: a chain allocates nothing once it has been that long") {
  held_rig r;
  const auto round = [&] {
    const job_id first = r.submit(true);
    std::optional<job_id> last = first;
    for (int i = 0; i < 10; ++i) last = r.submit(false, last);
    CHECK(r.dispatch.release(first));
    r.run_until_idle();
  };
  for (int i = 0; i < 20; ++i) round();
  r.hears.ends.reserve(10'000);
  r.hears.submits.reserve(10'000);
  const std::size_t before = gsched::testing::allocations();
  for (int i = 0; i < 20; ++i) round();
  CHECK(gsched::testing::allocations() == before);
  CHECK(r.dispatch.statistics().finished == 40 * 11);
}
