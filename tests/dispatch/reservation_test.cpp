// SPDX-License-Identifier: Apache-2.0
//
// SMs that long best-effort work leaves unused for real-time work, through the whole dispatcher.
#include "allocations.hpp"
#include "dispatch/much_room.hpp"
#include "dispatch/rig.hpp"
#include "dispatch/yielding_device.hpp"

#include <gsched/policy/fifo.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace gsched;

namespace {

using by_class = gsched::priority<fifo, fifo>;

dispatch_options reserving(std::initializer_list<sm_count> sizes, bool learns = true) {
  dispatch_options o;
  o.lanes = 2;
  o.quantum = from_us(2000);
  o.most_quantum = o.quantum;
  o.low_mark = o.quantum;
  o.high_mark = 2 * o.quantum;
  o.preemption.real_time_lanes = 1;
  o.preemption.reserve = sizes;
  o.preemption.reserve_learns = learns;
  return o;
}

operation kernel(std::uint32_t blocks, double us) {
  operation op;
  op.launch.grid = {blocks, 1, 1};
  op.launch.block = {1024, 1, 1};
  op.launch.registers_per_thread = 32;
  op.expected = from_us(us);
  return op;
}

/// Also records which operations were submitted, and that a job has work in flight on one lane
/// only.
struct ordered_listener : recording_listener {
  struct range {
    job_id job{};
    program_id program{};
    std::uint32_t first = 0;
    std::size_t size = 0;
  };
  void on_submit(const job& j, const segment& s, duration expected, time_point now) noexcept {
    recording_listener::on_submit(j, s, expected, now);
    if (!keeps) return;
    ranges.push_back({j.id, s.program, s.first, s.operations.size()});
    auto& [lane, n] = in_flight_on[j.id];
    split += n > 0 && lane != s.lane;
    lane = s.lane;
    ++n;
  }
  void on_segment_end(const job& j, segment_id id, time_point now) noexcept {
    recording_listener::on_segment_end(j, id, now);
    if (keeps) --in_flight_on[j.id].second;
  }
  bool keeps = false;
  std::vector<range> ranges;
  std::map<job_id, std::pair<lane_id, int>> in_flight_on{};
  int split = 0; ///< times that a job had work on two lanes
};

template <class Device, class Listener = ordered_listener>
struct serving {
  template <class... A>
  explicit serving(const dispatch_options& o, A&&... a)
      : device(std::forward<A>(a)...),
        account(device.limits().sm, device.limits().sms, much_room()),
        made(device, order, account, hears, o) {}

  program& load(std::string name, std::vector<operation> ops) {
    program& p = programs.emplace_back(std::move(name), std::move(ops));
    dispatch.load(p);
    return p;
  }
  model_id add(std::string name, std::vector<operation> ops) {
    program& p = load(name, std::move(ops));
    bodies.emplace_back([&p](job_context& ctx) -> task {
      ctx.launch(p);
      co_return;
    });
    return dispatch.add_model(std::move(name), bodies.back(), &p);
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
  /// Runs until the real-time job has ended, with that many best-effort jobs of each model.
  void serve(model_id rt, std::vector<model_id> be, std::size_t each, double gap_us) {
    run_with(be, each, from_us(gap_us));
    const job_id id = real_time(rt);
    const auto ended = [&] {
      return std::any_of(hears.ends.rbegin(), hears.ends.rend(),
                         [&](const auto& e) { return e.id == id; });
    };
    while (!ended()) {
      keep(be, each);
      if (!dispatch.step()) device.wait(no_deadline);
    }
  }
  void run_with(const std::vector<model_id>& be, std::size_t each, duration d) {
    for (const time_point end = device.now() + d; device.now() < end;) {
      keep(be, each);
      if (!dispatch.step()) device.wait(end);
    }
  }
  void keep(const std::vector<model_id>& be, std::size_t each) {
    while (!be.empty() && dispatch.statistics().active < each * be.size())
      static_cast<void>(best_effort(be[turn++ % be.size()]));
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
  Listener hears;
  test::shared_dispatcher made;
  test::any_dispatcher& dispatch = *made;
  client& first = dispatch.add_client();
  client& second = dispatch.add_client();
  std::deque<program> programs;
  std::deque<std::function<task(job_context&)>> bodies;
  std::size_t turn = 0;
};

using serves_yielding = serving<yielding_device>;
using on_sim = serving<sim::device>;

} // namespace

TEST_CASE("reservation: long programs go to lanes that leave SMs, others and copies as before") {
  yielding_device::options d;
  d.takes_back = false; // so that each segment is submitted once
  serves_yielding r(reserving({sm_count{16}, sm_count{40}}, false), 12u, d);
  r.hears.keeps = true;
  program& slow = r.load("slow", {kernel(64, 50), kernel(64, 150), kernel(64, 50)});
  program& quick = r.load("quick", std::vector<operation>(5, kernel(64, 20)));
  operation copy;
  copy.kind = operation_kind::memcpy;
  copy.expected = from_us(5);
  // A job of both programs, with copies before, between and behind.
  r.bodies.emplace_back([&](job_context& ctx) -> task {
    ctx.launch(copy);
    ctx.launch(slow);
    ctx.launch(copy);
    ctx.launch(quick);
    ctx.launch(slow);
    ctx.launch(copy);
    co_return;
  });
  const model_id both = r.dispatch.add_model("both", r.bodies.back(), &slow);
  const model_id rt = r.add("rt", {kernel(64, 30)});
  std::vector<job_id> jobs;
  for (int i = 0; i < 6; ++i) {
    jobs.push_back(r.best_effort(both));
    r.run_for(from_us(100));
    static_cast<void>(r.real_time(rt));
    r.run_for(from_us(300));
  }
  r.finish();
  std::uint64_t reserved = 0;
  for (const auto& s : r.hears.submits) {
    const lane_options& how = r.device.how(s.lane);
    const bool is_slow = how.reserved.count() > 0;
    reserved += is_slow;
    if (is_slow) {
      CHECK(how.reserved.count() == 16); // always the first size
      CHECK(how.yields);
      CHECK(how.least_operation == from_us(100));
    }
    if (s.expected >= from_us(150)) CHECK(is_slow);
    if (s.expected == from_us(100)) CHECK_FALSE(is_slow); // all of the short program at once
  }
  CHECK(r.dispatch.preemption().reserved_segments == reserved);
  CHECK(reserved >= 12 * 2);
  CHECK(r.hears.split == 0);
  for (const job_id id : jobs) {
    CHECK(r.device.ran(id) == 14);
    std::vector<std::pair<program_id, std::uint32_t>> ran;
    for (const auto& x : r.hears.ranges)
      for (std::uint32_t i = 0; x.job == id && i < x.size; ++i)
        ran.emplace_back(x.program, x.program == no_program ? 0 : x.first + i);
    std::vector<std::pair<program_id, std::uint32_t>> expected;
    for (const program_id p :
         {no_program, slow.id(), no_program, quick.id(), slow.id(), no_program})
      for (std::uint32_t i = 0; i < (p == no_program ? 1u : p == slow.id() ? 3u : 5u); ++i)
        expected.emplace_back(p, i);
    CHECK(ran == expected);
  }
  CHECK(r.dispatch.statistics().finished == 12);
}

TEST_CASE("reservation: lanes that leave SMs yield, and what is on them stays and goes on") {
  serves_yielding r(reserving({sm_count{16}}, false), 5u, yielding_device::options{});
  const model_id be = r.add("be", std::vector<operation>(30, kernel(64, 100)));
  const model_id rt = r.add("rt", std::vector<operation>(10, kernel(64, 10)));
  for (int i = 0; i < 12; ++i) static_cast<void>(r.best_effort(be));
  for (int i = 0; i < 30; ++i) {
    r.run_for(from_us(217));
    const auto before = r.hears.submits.size();
    static_cast<void>(r.real_time(rt));
    r.run_for(from_us(60));
    CHECK(r.hears.submits.size() == before + 1); // and no best-effort segment
    r.run_for(from_us(60));
  }
  r.finish();
  const preemption_statistics& p = r.dispatch.preemption();
  CHECK(p.preemptions.count == 30);
  CHECK(p.preemptions.latency.count() == 30);
  CHECK(p.preemptions.latency.max() <= from_us(100 * 132.0 / 116 + 2 * 8));
  CHECK(r.device.yields >= 30);
  CHECK(r.device.breaches() == 0);
  CHECK(r.device.nothing_left());
}

TEST_CASE("reservation: while a real-time job is expected, one long kernel is queued at most") {
  struct seen {
    duration gone{};    ///< longest time until best-effort work has stopped
    duration longest{}; ///< best-effort segment
    int at_once = 0;    ///< most segments of best-effort work in flight
  };
  const auto serve = [](double each_us, bool bounded, std::uint32_t lanes) {
    dispatch_options o = reserving({});
    o.lanes = lanes;
    o.preemption.one_long = bounded;
    on_sim r(o, sim::h200());
    const model_id be = r.add("be", std::vector<operation>(20, kernel(264, each_us)));
    const model_id rt = r.add("rt", {kernel(8, 50)});
    std::mt19937_64 random(3);
    for (int i = 0; i < 100; ++i) {
      r.serve(rt, {be}, 3, 800 + static_cast<double>(random() % 1000));
      if (i > 5) continue; // at first, no real-time job was expected
      r.hears.most_in_flight = 0;
      r.hears.submits.clear();
    }
    seen s;
    for (const auto& x : r.hears.submits) s.longest = std::max(s.longest, x.expected);
    s.at_once = static_cast<int>(r.hears.most_in_flight) - 1; // and one real-time segment
    s.gone = r.dispatch.preemption().preemptions.latency.percentile(0.9);
    r.dispatch.cancel_all();
    r.finish();
    return s;
  };
  for (const std::uint32_t lanes : {1u, 2u}) {
    const seen freely = serve(400, false, lanes);
    CHECK(freely.gone > from_us(900));
    CHECK(freely.longest == from_us(2000));
    CHECK(freely.at_once > static_cast<int>(lanes));
    const seen bounded = serve(400, true, lanes);
    CHECK(bounded.gone < from_us(400 * lanes * 1.2));
    CHECK(bounded.longest == from_us(400));
    CHECK(bounded.at_once <= static_cast<int>(lanes));
    const seen brief = serve(20, true, lanes); // short kernels are queued as without reservation
    CHECK(brief.longest >= from_us(400));
    CHECK(brief.at_once > static_cast<int>(lanes));
  }
}

TEST_CASE("reservation: SMs are left only while real-time jobs are expected") {
  serves_yielding r(reserving({sm_count{16}}, true), 5u, yielding_device::options{});
  const model_id be = r.add("be", std::vector<operation>(40, kernel(64, 300)));
  const model_id rt = r.add("rt", {kernel(64, 50)});
  r.run_with({be}, 2, from_us(20000));
  CHECK(r.dispatch.preemption().reserved_segments == 0);
  for (int i = 0; i < 40; ++i) r.serve(rt, {be}, 2, 1000 + 97 * i % 300);
  const std::uint64_t then = r.dispatch.preemption().reserved_segments;
  CHECK(then > 0);
  r.run_with({be}, 2, from_us(16 * 2000)); // while a request may still arrive
  const std::uint64_t last = r.dispatch.preemption().reserved_segments;
  r.run_with({be}, 2, from_us(100000));
  CHECK(r.dispatch.preemption().reserved_segments <= last + 2);
  r.dispatch.cancel_all();
  r.finish();
  CHECK(r.device.breaches() == 0);
}

TEST_CASE("reservation: long kernels of a lane and its alternates never run side by side") {
  struct on_lanes : recording_listener {
    void on_submit(const job& j, const segment& s, duration expected, time_point now) noexcept {
      recording_listener::on_submit(j, s, expected, now);
      if (j.service == service_class::real_time) return;
      in_flight[s.id] = s.lane;
      for (const auto& [id, lane] : in_flight) side_by_side += lane != s.lane;
      used.insert(s.lane);
    }
    void on_segment_end(const job&, segment_id id, time_point) noexcept { in_flight.erase(id); }
    std::map<segment_id, lane_id> in_flight;
    std::set<lane_id> used;
    int side_by_side = 0;
  };
  dispatch_options o = reserving({sm_count{16}, sm_count{40}});
  o.lanes = 1;
  o.preemption.reserve_slow_down = o.preemption.reserve_tail = o.preemption.reserve_share = 0;
  serving<yielding_device, on_lanes> r(o, 7u, yielding_device::options{});
  const model_id be = r.add("be", std::vector<operation>(6, kernel(64, 300)));
  const model_id rt = r.add("rt", {kernel(64, 50)});
  // Requests so far apart that between two of them none is expected for a while: work submitted
  // then leaves no SM unused, and still runs when the next one is expected.
  for (int i = 0; i < 300; ++i) r.serve(rt, {be}, 3, 20000 + 331 * i % 900);
  r.dispatch.cancel_all();
  r.finish();
  CHECK(r.hears.used.size() >= 2);
  CHECK(r.hears.side_by_side == 0);
}

TEST_CASE("reservation: the size is learned on a simulated GPU") {
  // The long kernel fills every SM of its lane; the real-time kernels need 12 SMs.
  const auto chosen = [](std::uint32_t waves, double target) {
    dispatch_options o = reserving({sm_count{8}, sm_count{16}, sm_count{32}});
    o.lanes = 1;
    o.preemption.reserve_slow_down = target;
    o.preemption.reserve_tail = 100;
    on_sim r(o, sim::h200());
    operation fills = kernel(2 * 132 * waves, 1000);
    fills.by_sms = {{sm_count{100}, from_us(1000 * (waves == 1 ? 2 : 1.3))},
                    {sm_count{116}, from_us(1000 * (waves == 1 ? 2 : 1.13))},
                    {sm_count{124}, from_us(1000 * (waves == 1 ? 2 : 1.06))}};
    const model_id be = r.add("be", std::vector<operation>(8, fills));
    operation small = kernel(12, 20);
    small.by_sms = {{sm_count{8}, from_us(39)}, {sm_count{16}, from_us(20)}};
    const model_id rt = r.add("rt", std::vector<operation>(20, small));
    std::mt19937_64 random(11);
    for (int i = 0; i < 600; ++i) r.serve(rt, {be}, 2, 1000 + static_cast<double>(random() % 4000));
    const sm_count kept = r.dispatch.reserved(be);
    r.dispatch.cancel_all();
    r.finish();
    CHECK(r.dispatch.statistics().failed == 0);
    return kept.count();
  };
  CHECK(chosen(16, 0.15) == 16);
  CHECK(chosen(16, 10) == 0);  // no size is needed
  CHECK(chosen(1, 0.15) == 0); // a second wave of blocks costs half of the throughput
}

TEST_CASE("reservation: models with short kernels alone leave none") {
  serves_yielding r(reserving({sm_count{16}, sm_count{40}}), 12u, yielding_device::options{});
  const model_id be = r.add("be", std::vector<operation>(100, kernel(64, 20)));
  const model_id rt = r.add("rt", {kernel(64, 50)});
  for (int i = 0; i < 300; ++i) r.serve(rt, {be}, 3, 500);
  CHECK(r.dispatch.preemption().reserved_segments == 0);
  CHECK(r.dispatch.reserved(be) == sm_count{});
  r.dispatch.cancel_all();
  r.finish();
}

TEST_CASE("reservation: bad options, each in one line") {
  const auto refused = [](auto change, const std::string& why) {
    dispatch_options o = reserving({sm_count{16}});
    change(o);
    try {
      serves_yielding r(o, 12u, yielding_device::options{});
    } catch (const error& e) {
      CHECK(e.code() == errc::bad_option);
      CHECK(std::string(e.what()).find('\n') == std::string::npos);
      return std::string(e.what()).find(why) != std::string::npos;
    }
    return false;
  };
  CHECK(refused([](auto& o) { o.preemption.reserve = {sm_count{}}; }, "sizes that rise"));
  CHECK(refused([](auto& o) { o.preemption.reserve = {sm_count{8}, sm_count{8}}; }, "rise"));
  CHECK(refused([](auto& o) { o.preemption.long_operation = {}; }, "long_operation"));
  CHECK(refused([](auto& o) { o.preemption.reserve_slow_down = -0.1; }, "reserve_slow_down"));
  CHECK(refused([](auto& o) { o.preemption.reserve_tail = -1; }, "reserve_tail"));
  CHECK(refused([](auto& o) { o.preemption.reserve_share = 1.1; }, "reserve_share"));
  CHECK(refused([](auto& o) { o.preemption.real_time_lanes = 0; }, "real_time_lanes"));
  CHECK(refused([](auto& o) { o.use = lane_use::own; }, "lane_use::shared"));
  CHECK(refused([](auto& o) { o.lane.sms = sm_count{16}; }, "lane of all SMs"));
  dispatch_options o = reserving({sm_count{132}});
  CHECK_THROWS_WITH_AS(on_sim(o, sim::h200()), doctest::Contains("partition that leaves 132 SMs"),
                       error);
}

TEST_CASE("reservation: no allocation in steady state") {
  for (const bool learns : {false, true}) {
    serves_yielding r(reserving({sm_count{16}, sm_count{40}}, learns), 12u,
                      yielding_device::options{});
    r.device.reserve_jobs(100000);
    r.hears.submits.reserve(1 << 20);
    r.hears.ends.reserve(1 << 20);
    const model_id slow = r.add("slow", std::vector<operation>(20, kernel(64, 200)));
    const model_id quick = r.add("quick", std::vector<operation>(20, kernel(64, 20)));
    const model_id rt = r.add("rt", std::vector<operation>(5, kernel(64, 20)));
    const std::vector<model_id> both{slow, quick};
    const auto some = [&](int requests) {
      for (int i = 0; i < requests; ++i) {
        r.keep(both, 3);
        static_cast<void>(r.real_time(rt));
        r.run_for(from_us(700 + i % 7 * 60));
      }
    };
    some(400);
    const std::size_t before = gsched::testing::allocations();
    some(2000);
    CHECK(gsched::testing::allocations() == before);
    CHECK(r.dispatch.preemption().reserved_segments > (learns ? 100 : 1000));
    r.dispatch.cancel_all();
    r.finish();
    CHECK(r.device.breaches() == 0);
  }
}
