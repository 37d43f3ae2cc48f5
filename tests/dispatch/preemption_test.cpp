// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"
#include "dispatch/much_room.hpp"
#include "dispatch/rig.hpp"
#include "dispatch/shared/native_dispatchers.hpp"
#include "dispatch/yielding_device.hpp"

#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/policy/srpt.hpp>
#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <deque>
#include <string>
#include <vector>

using namespace gsched;

namespace {

using by_class = gsched::priority<fifo, fifo>;

struct hears_preemption : recording_listener {
  void on_preempt(time_point at) noexcept { preempts.push_back(at); }
  void on_restore(time_point at) noexcept { restores.push_back(at); }
  void on_starvation(duration waited, time_point) noexcept { starved.push_back(waited); }
  std::vector<time_point> preempts;
  std::vector<time_point> restores;
  std::vector<duration> starved;
};

dispatch_options apart() {
  dispatch_options o;
  o.lanes = 2;
  o.most_quantum = o.quantum;
  o.preemption.real_time_lanes = 1;
  return o;
}

operation kernel(duration each, preemptibility preemptible) {
  operation op;
  op.launch.grid = {132, 1, 1};
  op.launch.block = {128, 1, 1};
  op.launch.registers_per_thread = 32;
  op.expected = each;
  op.preemptible = preemptible;
  return op;
}

template <class Device>
struct two_classes {
  template <class... A>
  explicit two_classes(const dispatch_options& o, A&&... a)
      : device(std::forward<A>(a)...),
        account(device.limits().sm, device.limits().sms, much_room()),
        made(device, order, account, hears, o) {}

  model_id add(std::string name, std::size_t operations, duration each,
               preemptibility preemptible = preemptibility::never, std::uint32_t instances = 0) {
    programs.emplace_back(name, std::vector<operation>(operations, kernel(each, preemptible)));
    program& p = programs.back();
    dispatch.load(p);
    bodies.emplace_back([&p](job_context& ctx) -> task {
      ctx.launch(p);
      co_return;
    });
    return dispatch.add_model(std::move(name), bodies.back(), &p, instances);
  }
  job_id submit(model_id m, service_class of) {
    job_request q;
    q.model = m;
    q.owner = of == service_class::real_time ? &first : &second;
    q.service = of;
    q.arrival = device.now();
    return dispatch.submit(q);
  }
  job_id real_time(model_id m) { return submit(m, service_class::real_time); }
  job_id best_effort(model_id m) { return submit(m, service_class::best_effort); }

  void run_for(duration d) {
    for (const time_point end = device.now() + d; device.now() < end;)
      if (!dispatch.step()) device.wait(end);
  }
  void finish() {
    for (int rounds = 0; !dispatch.idle(); ++rounds) {
      REQUIRE(rounds < 1000000);
      if (!dispatch.step()) {
        REQUIRE_FALSE(dispatch.nothing_in_flight());
        device.wait(no_deadline);
      }
    }
  }

  Device device;
  by_class order;
  aggregate_accountant account;
  hears_preemption hears;
  test::shared_dispatcher made;
  test::any_dispatcher& dispatch = *made;
  client& first = dispatch.add_client();
  client& second = dispatch.add_client();
  std::deque<program> programs;
  std::deque<std::function<task(job_context&)>> bodies;
};

using on_yielding = two_classes<yielding_device>;

/// The same without yield and resume: no lane can be asked to yield.
class stubborn_device {
public:
  stubborn_device(std::uint32_t lanes, yielding_device::options o) : is_(lanes, o) {}
  lane_id open_lane(const lane_options& how) { return is_.open_lane(how); }
  void load(program& p) { is_.load(p); }
  [[nodiscard]] std::error_code submit(const segment& s) noexcept { return is_.submit(s); }
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept { return is_.poll(out); }
  [[nodiscard]] std::size_t evict(lane_id lane) noexcept { return is_.evict(lane); }
  void wait(time_point t) noexcept { is_.wait(t); }
  [[nodiscard]] time_point now() const noexcept { return is_.now(); }
  [[nodiscard]] const device_limits& limits() const noexcept { return is_.limits(); }

private:
  yielding_device is_;
};
static_assert(device<stubborn_device> && !preemptive_device<stubborn_device>);

} // namespace

TEST_CASE("preemption: each class goes to its own lanes, whoever uses them") {
  for (const lane_use use : {lane_use::shared, lane_use::own, lane_use::client}) {
    dispatch_options o = apart();
    o.use = use;
    o.preemption.real_time_lanes = 2;
    on_yielding r(o, 4u, yielding_device::options{});
    const model_id m = r.add("m", 40, from_us(10));
    std::vector<service_class> of;
    for (int i = 0; i < 20; ++i) {
      of.push_back(i % 3 ? service_class::best_effort : service_class::real_time);
      static_cast<void>(r.submit(m, of.back()));
    }
    r.finish();
    CHECK(r.dispatch.statistics().finished == 20);
    for (const auto& s : r.hears.submits)
      CHECK((index(s.lane) < 2) ==
            (of[static_cast<std::size_t>(s.job)] == service_class::best_effort));
    CHECK(r.device.breaches() == 0);
  }
}

TEST_CASE("preemption: best-effort work makes way at once and goes on where it stood") {
  for (const preemptibility preemptible : {preemptibility::never, preemptibility::at_checkpoints}) {
    on_yielding r(apart(), 3u, yielding_device::options{});
    const model_id be = r.add("be", 100, from_us(20), preemptible);
    const model_id rt = r.add("rt", 10, from_us(10));
    const job_id long_job = r.best_effort(be);
    r.run_for(from_us(333));
    static_cast<void>(r.real_time(rt));
    const auto before = r.hears.submits.size();
    r.run_for(from_us(50));
    CHECK(r.hears.submits.size() == before + 1); // the real-time segment, and no best-effort one
    const duration served = r.device.served(lane_id{0});
    r.run_for(from_us(40));
    CHECK(r.device.served(lane_id{0}) == served);
    r.finish();
    const preemption_statistics& s = r.dispatch.preemption();
    CHECK(s.preemptions.count == 1);
    CHECK(s.preemptions.latency.count() == 1);
    CHECK(s.preemptions.latency.max() <= from_us(20 + 2 * 8));
    CHECK(s.restores.count == 1);
    CHECK(s.restores.latency.count() == (preemptible == preemptibility::never ? 1 : 0));
    CHECK((s.preempted_segments > 0) == (r.device.preempted > 0));
    if (preemptible != preemptibility::never) CHECK(s.preempted_segments >= 1);
    CHECK(s.time_withheld >= from_us(100));
    CHECK(r.device.ran(long_job) == 100);
    CHECK(r.dispatch.statistics().operations == 110);
    CHECK(r.hears.preempts.size() == 1);
    CHECK(r.hears.restores.size() == 1);
    CHECK(r.hears.in_flight == 0);
    CHECK(r.device.breaches() == 0);
    CHECK(r.device.nothing_left());
  }
}

TEST_CASE("preemption: a real-time job that is over before the lane has yielded") {
  on_yielding r(apart(), 3u, yielding_device::options{});
  const model_id be = r.add("be", 40, from_us(100)); // a kernel is a whole segment
  const model_id rt = r.add("rt", 1, from_us(5));
  static_cast<void>(r.best_effort(be));
  r.run_for(from_us(110));
  for (int i = 0; i < 3; ++i) { // the next arrives while the lane is still yielding
    static_cast<void>(r.real_time(rt));
    r.run_for(from_us(15));
  }
  CHECK(r.dispatch.preemption().preemptions.count == 1);
  r.finish();
  CHECK(r.dispatch.preemption().preemptions.latency.count() == 1);
  CHECK(r.dispatch.statistics().finished == 4);
  CHECK(r.device.yields == 1);
  CHECK(r.device.breaches() == 0);
}

TEST_CASE("preemption: times are not learned from segments that were held") {
  on_yielding r(apart(), 3u, yielding_device::options{});
  const model_id be = r.add("be", 200, from_us(20));
  const model_id rt = r.add("rt", 100, from_us(20));
  static_cast<void>(r.best_effort(be));
  for (int i = 0; i < 20; ++i) {
    r.run_for(from_us(150));
    static_cast<void>(r.real_time(rt));
    r.run_for(from_us(2100));
  }
  r.finish();
  const duration learned = r.dispatch.estimate_of(be).total();
  CHECK(learned > from_us(200 * 20 * 0.95));
  CHECK(learned < from_us(200 * 20 * 1.2)); // it includes the latency of the events
}

TEST_CASE("preemption: a real-time job that waits for a best-effort job's instance lets it on") {
  on_yielding r(apart(), 3u, yielding_device::options{});
  const model_id one = r.add("one", 50, from_us(20), preemptibility::never, 1);
  const model_id rt = r.add("rt", 50, from_us(20));
  static_cast<void>(r.best_effort(one));
  r.run_for(from_us(100));
  static_cast<void>(r.real_time(one)); // waits for the instance
  static_cast<void>(r.real_time(rt));
  r.finish();
  CHECK(r.dispatch.statistics().finished == 3);
}

TEST_CASE("preemption: a cancelled job first runs what was stopped half way") {
  int half_way = 0;
  for (int after = 0; after < 60; ++after) {
    on_yielding r(apart(), 3u, yielding_device::options{});
    const model_id be = r.add("be", 100, from_us(20), preemptibility::at_checkpoints, 1);
    const model_id rt = r.add("rt", 10, from_us(10));
    const job_id stopped = r.best_effort(be);
    r.run_for(from_us(333));
    static_cast<void>(r.real_time(rt));
    r.run_for(from_us(3 * after));
    half_way += !r.device.nothing_left();
    CHECK(r.dispatch.cancel(stopped));
    const job_id next = r.best_effort(be); // starts the same program anew
    r.finish();
    CHECK(r.dispatch.statistics().cancelled == 1);
    CHECK(r.device.ran(stopped) < 40);
    CHECK(r.device.ran(next) == 100);
    CHECK(r.device.nothing_left());
    CHECK(r.device.breaches() == 0);
  }
  CHECK(half_way > 30);
}

TEST_CASE("preemption: best-effort jobs get their floor of the time, and starvation is told") {
  for (const double floor : {0.0, 0.1, 0.25, 0.5}) {
    CAPTURE(floor);
    dispatch_options o = apart();
    o.preemption.floor = floor;
    o.preemption.floor_window = from_us(2000);
    o.preemption.starved_after = from_us(5000);
    on_yielding r(o, 3u, yielding_device::options{});
    const model_id be = r.add("be", 1000, from_us(20));
    const model_id rt = r.add("rt", 20, from_us(10));
    for (int i = 0; i < 5; ++i) static_cast<void>(r.best_effort(be));
    const time_point end = r.device.now() + from_us(100000);
    while (r.device.now() < end) { // at least two are always active
      while (r.order.size(service_class::real_time) < 2) static_cast<void>(r.real_time(rt));
      if (!r.dispatch.step()) r.device.wait(end);
    }
    const preemption_statistics& s = r.dispatch.preemption();
    const double open_share = 1 - to_us(s.time_withheld) / 100000;
    const duration most = std::max(r.device.served(lane_id{0}), r.device.served(lane_id{1}));
    if (floor == 0) {
      CHECK(s.starvations == 1);
      CHECK(r.hears.starved.size() == 1);
      CHECK(most < from_us(200));
    } else {
      CHECK(std::abs(open_share - floor) < 0.03);
      CHECK(to_us(most) > 100000 * (floor - 0.05));
      CHECK(s.starvations == 0);
      CHECK(s.longest_wait < from_us(2500));
    }
    r.dispatch.cancel_all();
    r.finish();
    CHECK(s.longest_wait > from_us(floor == 0 ? 90000 : 500));
    CHECK(r.device.breaches() == 0);
  }
}

TEST_CASE("preemption: a device that cannot yield gets nothing new, and gives back what has not "
          "started") {
  dispatch_options o = apart();
  o.lanes = 1;
  o.high_mark = from_us(500);
  o.segments_per_job = 5;
  o.preemption.real_time_quantum = from_us(50);
  two_classes<null_device> r(o, device_limits{limits_for(9, 0), sm_count{132}, 2}, from_us(50));
  const model_id be = r.add("be", 200, from_us(10));
  const model_id rt = r.add("rt", 20, from_us(10));
  static_cast<void>(r.best_effort(be));
  r.run_for(from_us(120));
  static_cast<void>(r.real_time(rt));
  const auto before = r.hears.submits.size();
  r.run_for(from_us(60));
  for (auto i = before; i < r.hears.submits.size(); ++i) CHECK(index(r.hears.submits[i].lane) == 1);
  const preemption_statistics& s = r.dispatch.preemption();
  CHECK(s.evicted_segments > 0);
  CHECK(s.preemptions.count == 1);
  r.finish();
  CHECK(s.preemptions.latency.count() == 1);
  CHECK(s.preemptions.latency.max() <= from_us(50));
  CHECK(r.dispatch.statistics().operations == 220);
  CHECK(r.dispatch.statistics().finished == 2);
}

TEST_CASE("preemption: with yields off, priorities alone tell the classes apart") {
  dispatch_options o = apart();
  o.preemption.yields = false;
  on_yielding r(o, 3u, yielding_device::options{});
  const model_id m = r.add("m", 100, from_us(10));
  static_cast<void>(r.best_effort(m));
  static_cast<void>(r.real_time(m));
  r.finish();
  CHECK(r.device.yields == 0);
  CHECK(r.dispatch.preemption().preemptions.count == 0);
  CHECK(r.device.now() < time_point{from_us(1200)}); // they ran concurrently
}

TEST_CASE("preemption: what is queued is short while a real-time job is likely, long while not") {
  for (const bool periodic : {false, true}) {
    dispatch_options o = apart();
    o.most_quantum = from_us(800);
    two_classes<stubborn_device> r(o, 3u, yielding_device::options{});
    const model_id be = r.add("be", 100000, from_us(1));
    const model_id rt = r.add("rt", 10, from_us(1));
    static_cast<void>(r.best_effort(be));
    for (int i = 0; i < 30; ++i) {
      if (periodic) static_cast<void>(r.real_time(rt));
      r.run_for(from_us(2000));
    }
    if (periodic) static_cast<void>(r.real_time(rt));
    std::vector<duration> longest; // of the segments submitted in each 500 us of a period
    for (int i = 0; i < 4; ++i) {
      const auto first = r.hears.submits.size();
      r.run_for(from_us(500));
      longest.push_back({});
      for (auto k = first; k < r.hears.submits.size(); ++k)
        if (index(r.hears.submits[k].lane) < 2)
          longest.back() = std::max(longest.back(), r.hears.submits[k].expected);
    }
    if (periodic) {
      CHECK(longest[0] > from_us(200)); // no request is expected for a while
      CHECK(longest[3] < from_us(200)); // the next is due
      r.run_for(from_us(20000));        // the client has stopped
      const auto first = r.hears.submits.size();
      r.run_for(from_us(2000));
      CHECK(r.hears.submits[first].expected > from_us(600));
    } else {
      CHECK(*std::max_element(longest.begin(), longest.end()) == from_us(800));
    }
    r.dispatch.cancel_all();
    r.finish();
  }
}

TEST_CASE("preemption: side lanes are used where that gains, and left where it hurts") {
  for (const bool hurts : {false, true}) {
    CAPTURE(hurts);
    dispatch_options o = apart();
    o.preemption.side = {sm_count{16}, sm_count{32}};
    yielding_device::options d;
    d.side_hurts = hurts;
    d.contention = 1.3;
    on_yielding r(o, 5u, d);
    const model_id be = r.add("be", 20, from_us(5));
    const model_id rt = r.add("rt", 100, from_us(10));
    for (int i = 0; i < 3000; ++i) {
      while (r.dispatch.statistics().active < 8) static_cast<void>(r.best_effort(be));
      static_cast<void>(r.real_time(rt));
      r.run_for(from_us(1500));
    }
    r.dispatch.cancel_all();
    r.finish();
    const std::uint64_t beside = r.dispatch.preemption().side_segments;
    if (hurts)
      CHECK(beside < 600);
    else
      CHECK(beside > 600);
    CHECK(beside > 0); // it was tried
    CHECK(r.device.breaches() == 0);
    CHECK(r.device.nothing_left());
  }
}

TEST_CASE("preemption: bad options, each in one line") {
  const auto refused = [](auto change) {
    dispatch_options o = apart();
    change(o);
    try {
      on_yielding r(o, 8u, yielding_device::options{});
    } catch (const error& e) {
      CHECK(e.code() == errc::bad_option);
      CHECK(std::string(e.what()).find('\n') == std::string::npos);
      return true;
    }
    return false;
  };
  CHECK_FALSE(refused([](dispatch_options&) {}));
  CHECK(refused([](dispatch_options& o) { o.preemption.floor = 1; }));
  CHECK(refused([](dispatch_options& o) { o.preemption.floor = std::nan(""); }));
  CHECK(refused([](dispatch_options& o) { o.preemption.floor_window = duration::zero(); }));
  CHECK(refused([](dispatch_options& o) { o.preemption.tolerance = -1; }));
  CHECK(refused([](dispatch_options& o) { o.preemption.least_queue = duration::zero(); }));
  CHECK(refused([](dispatch_options& o) { o.preemption.cut_cost = duration::zero(); }));
  CHECK(refused([](dispatch_options& o) { o.preemption.starved_after = duration::zero(); }));
  CHECK(refused([](dispatch_options& o) { o.preemption.side = {sm_count{0}}; }));
  CHECK(refused([](dispatch_options& o) { o.max_segments = 3; }));
  CHECK(refused([](dispatch_options& o) {
    o.preemption.real_time_lanes = 0;
    o.preemption.floor = 0.5;
  }));
  // A policy that may serve a best-effort job before a real-time one.
  dispatch_options o = apart();
  sim::device device(sim::h200());
  srpt order;
  aggregate_accountant account(device.limits().sm, device.limits().sms);
  silent_listener hears;
  CHECK_THROWS_WITH_AS(static_cast<void>(test::native_dispatcher(device, order, account, hears, o)),
                       "preemption.real_time_lanes: policy srpt, expected one that serves "
                       "real-time jobs first, such as priority<edf,srpt>",
                       error);
}

TEST_CASE("preemption: no allocation in steady state") {
  dispatch_options o = apart();
  o.preemption.floor = 0.1;
  o.preemption.side = {sm_count{16}};
  on_yielding r(o, 4u, yielding_device::options{});
  r.device.reserve_jobs(100000);
  r.hears.submits.reserve(1 << 20);
  r.hears.ends.reserve(1 << 20);
  r.hears.preempts.reserve(1 << 20);
  r.hears.restores.reserve(1 << 20);
  const model_id be = r.add("be", 40, from_us(10), preemptibility::at_checkpoints, 4);
  const model_id rt = r.add("rt", 10, from_us(10));
  const auto serve = [&](int requests) {
    for (int i = 0; i < requests; ++i) {
      while (r.dispatch.statistics().active < 6) static_cast<void>(r.best_effort(be));
      static_cast<void>(r.real_time(rt));
      r.run_for(from_us(300));
    }
  };
  serve(500);
  const std::size_t before = gsched::testing::allocations();
  serve(2000);
  CHECK(gsched::testing::allocations() == before);
  CHECK(r.dispatch.preemption().preemptions.count > 1000);
  r.dispatch.cancel_all();
  r.finish();
}
