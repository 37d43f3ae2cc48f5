// SPDX-License-Identifier: Apache-2.0
#include "drawn_numbers.hpp"
#include "sanitized.hpp"

#include <job/waitlist_pair.hpp>

#include <gsched/job/waitlist.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

using namespace gsched;
using gsched::testing::below;
using gsched::testing::some_programs;
using gsched::testing::waitlist_pair;

namespace {

using generator = std::mt19937_64;

constexpr duration tick{10};

operation work(duration expected = tick) {
  operation op;
  op.expected = expected;
  return op;
}

/// Takes everything that may be submitted in a stream, one operation a cut; returns the number.
std::size_t take(waitlist& w, stream_id s) {
  std::array<const operation*, 1> buffer{};
  std::size_t n = 0;
  while (w.try_cut(tick, buffer, s)) ++n;
  return n;
}

/// One random call, on both.
void random_step(waitlist_pair& p, generator& r, bool launching) {
  const auto stream = [&] {
    const auto s = static_cast<std::uint32_t>(below(r, p.model.streams()));
    return below(r, 4) == 0 ? stream_default : stream_id{s + 1};
  };
  const std::size_t action = launching ? below(r, 20) : 8 + below(r, 12);
  const stream_id at = stream(); // drawn here, so that the order does not depend on the compiler
  const duration some{static_cast<int>(below(r, 40))};
  const auto event = [&] { return static_cast<std::uint32_t>(below(r, p.events())); };
  switch (action) {
  case 0:
  case 1:
  case 2: p.launch(at, some); break;
  case 3: p.launch_program(at, below(r, some_programs().size())); break;
  case 4:
  case 5:
    if (p.events() > 0) p.record(event(), at);
    break;
  case 6:
    if (p.events() > 0) p.wait(at, event());
    break;
  case 7:
    if (below(r, 2) == 0) p.call(at);
    break;
  case 8:
  case 9: p.cut_one(some, 16); break;
  case 10:
  case 11: p.cut_one(some, 1 + below(r, 16), at); break;
  case 12:
  case 13:
  case 14:
  case 15: {
    if (const std::size_t n = p.list.in_flight(at); n > 0) p.done(at, 1 + below(r, n));
    break;
  }
  case 16: {
    if (const std::size_t n = p.list.in_flight(at); n > 0) p.undo(at, 1 + below(r, n));
    break;
  }
  case 17: p.take_call(); break;
  case 18:
    if (p.running() > 0) p.finish_call(below(r, p.running()));
    break;
  default:
    if (below(r, 40) == 0) p.drop();
  }
}

} // namespace

TEST_CASE("random launches and completions agree with the happens-before graph") {
  entry_pool pool(64);
  constexpr std::uint64_t seeds = testing::sanitized ? 500 : 3000;
  std::size_t finished = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    generator r(seed);
    waitlist_pair p(pool, some_programs(),
                    seed % 3 == 0 ? default_stream::per_thread : default_stream::legacy);
    for (std::size_t n = below(r, 4); n > 0; --n)
      p.create_stream(below(r, 3) == 0 ? stream_kind::non_blocking : stream_kind::blocking);
    for (std::size_t n = below(r, 4); n > 0; --n) p.create_event();
    p.check();
    const std::size_t launches = 10 + below(r, 40);
    for (std::size_t i = 0; i < launches; ++i) {
      random_step(p, r, true);
      p.check();
    }
    // Any launched work can run to its end: no order that the API permits is a cycle.
    for (int i = 0; i < 5000 && !p.list.idle(); ++i) {
      random_step(p, r, false);
      p.check();
    }
    REQUIRE(p.list.idle());
    ++finished;
  }
  CHECK(finished == seeds);
}

TEST_CASE("every interleaving of three launches with their submissions and completions agrees") {
  constexpr stream_id legacy = stream_default, one{3}, two{4}, free_stream{5};
  using step = void (*)(waitlist_pair&);
  const std::array<step, 9> launches{
      [](waitlist_pair& p) { p.launch(legacy, tick); },
      [](waitlist_pair& p) { p.launch(one, tick); },
      [](waitlist_pair& p) { p.launch(two, tick); },
      [](waitlist_pair& p) { p.launch(free_stream, tick); },
      [](waitlist_pair& p) { p.launch(stream_per_thread, tick); },
      [](waitlist_pair& p) { p.record(0, one); },
      [](waitlist_pair& p) { p.record(0, legacy); },
      [](waitlist_pair& p) { p.wait(two, 0); },
      [](waitlist_pair& p) { p.wait(free_stream, 0); },
  };
  constexpr std::uint32_t launch_next = 100, end_in = 50;
  entry_pool pool(64);
  std::size_t states = 0;

  const auto replay = [&](waitlist_pair& p, const std::array<std::size_t, 3>& chosen,
                          const std::vector<std::uint32_t>& path) {
    p.create_stream(stream_kind::blocking);
    p.create_stream(stream_kind::blocking);
    p.create_stream(stream_kind::non_blocking);
    p.create_event();
    std::size_t launched = 0;
    for (const std::uint32_t a : path) {
      if (a == launch_next)
        launches[chosen[launched++]](p);
      else if (a >= end_in)
        p.done(p.model.handle(a - end_in), 1);
      else
        p.cut_one(tick, 1, p.model.handle(a));
    }
    return launched;
  };
  std::vector<std::uint32_t> path;
  const auto explore = [&](auto& self, const std::array<std::size_t, 3>& chosen) -> void {
    std::vector<std::uint32_t> actions;
    {
      waitlist_pair p(pool, some_programs());
      const std::size_t launched = replay(p, chosen, path);
      p.check();
      ++states;
      if (launched < chosen.size()) actions.push_back(launch_next);
      for (std::uint32_t s = 0; s < p.model.streams(); ++s) {
        if (p.list.has_active(p.model.handle(s))) actions.push_back(s);
        if (p.list.in_flight(p.model.handle(s)) > 0) actions.push_back(end_in + s);
      }
      if (actions.empty()) REQUIRE(p.list.idle());
    }
    for (const std::uint32_t a : actions) {
      path.push_back(a);
      self(self, chosen);
      path.pop_back();
    }
  };
  for (std::size_t a = 0; a < launches.size(); ++a)
    for (std::size_t b = 0; b < launches.size(); ++b)
      for (std::size_t c = 0; c < launches.size(); ++c) explore(explore, {a, b, c});
  CHECK(states > 10000);
}

TEST_CASE(
    "Paella figure 7, lines 2-3: a default-stream launch behind blocking streams is inactive") {
  entry_pool pool(16);
  waitlist w(pool);
  stream_id s{};
  REQUIRE(!w.create_stream(stream_kind::blocking, s));
  REQUIRE(!w.launch(s, work()));
  REQUIRE(!w.launch(stream_default, work()));
  CHECK(w.has_active(s));
  CHECK(!w.has_active(stream_default));
  CHECK(take(w, s) == 1);
  CHECK(!w.has_active(stream_default)); // in-flight work does not suffice
  w.done(s, 1);
  CHECK(take(w, stream_default) == 1);
}

TEST_CASE("Paella figure 7, lines 4-9: a launch is active unless its stream or stream 0 is ahead") {
  entry_pool pool(16);
  waitlist w(pool);
  stream_id blocking{}, other{}, free_stream{};
  REQUIRE(!w.create_stream(stream_kind::blocking, blocking));
  REQUIRE(!w.create_stream(stream_kind::blocking, other));
  REQUIRE(!w.create_stream(stream_kind::non_blocking, free_stream));
  REQUIRE(!w.launch(stream_default, work()));
  REQUIRE(!w.launch(blocking, work()));
  REQUIRE(!w.launch(free_stream, work()));
  CHECK(w.has_active(stream_default));
  CHECK(!w.has_active(blocking));   // behind stream 0
  CHECK(w.has_active(free_stream)); // which is independent of it
  CHECK(take(w, stream_default) == 1);
  CHECK(!w.has_active(blocking));
  w.done(stream_default, 1);
  REQUIRE(!w.launch(other, work()));
  CHECK(w.has_active(blocking));
  CHECK(w.has_active(other));
}

TEST_CASE("deviceSynchronize of figure 7 waits for every stream") {
  entry_pool pool(16);
  waitlist w(pool);
  stream_id free_stream{};
  REQUIRE(!w.create_stream(stream_kind::non_blocking, free_stream));
  REQUIRE(!w.launch(free_stream, work()));
  CHECK(!w.idle());
  CHECK(w.idle(stream_default));
  CHECK(take(w, free_stream) == 1);
  CHECK(!w.idle());
  w.done(free_stream, 1);
  CHECK(w.idle());
}

TEST_CASE("a wait on a later record, or on none, is no wait: a cycle cannot be launched") {
  entry_pool pool(16);
  waitlist w(pool);
  stream_id a{}, b{};
  REQUIRE(!w.create_stream(stream_kind::non_blocking, a));
  REQUIRE(!w.create_stream(stream_kind::non_blocking, b));
  const event_id x = w.create_event(), y = w.create_event();
  CHECK(w.complete(x));
  REQUIRE(!w.wait(a, x)); // x is recorded behind this stream's own record of y: a cycle on paper
  REQUIRE(!w.launch(a, work()));
  REQUIRE(!w.record(y, a));
  REQUIRE(!w.wait(b, y));
  REQUIRE(!w.launch(b, work()));
  REQUIRE(!w.record(x, b));
  CHECK(w.has_active(a));
  CHECK(!w.has_active(b));
  CHECK(take(w, a) == 1);
  w.done(a, 1);
  CHECK(w.complete(y));
  CHECK(!w.complete(x));
  CHECK(take(w, b) == 1);
  w.done(b, 1);
  CHECK(w.complete(x));
  CHECK(w.idle());
}

TEST_CASE("a wait keeps to the record before it when the event is recorded again") {
  entry_pool pool(16);
  waitlist w(pool);
  stream_id a{}, b{}, c{};
  for (stream_id* s : {&a, &b, &c}) REQUIRE(!w.create_stream(stream_kind::non_blocking, *s));
  const event_id e = w.create_event();
  REQUIRE(!w.launch(a, work()));
  REQUIRE(!w.record(e, a));
  REQUIRE(!w.wait(c, e));
  REQUIRE(!w.launch(c, work()));
  REQUIRE(!w.launch(b, work()));
  REQUIRE(!w.record(e, b));
  CHECK(take(w, a) == 1);
  CHECK(!w.has_active(c));
  w.done(a, 1);
  CHECK(w.has_active(c));
  CHECK(!w.complete(e)); // its latest record is b's
}

TEST_CASE("operations that are no device work act as record, wait and call") {
  entry_pool pool(16);
  waitlist w(pool);
  stream_id a{}, b{};
  REQUIRE(!w.create_stream(stream_kind::non_blocking, a));
  REQUIRE(!w.create_stream(stream_kind::non_blocking, b));
  operation record, wait, call;
  record.kind = operation_kind::event_record;
  wait.kind = operation_kind::event_wait;
  call.kind = operation_kind::host_function;
  record.event = wait.event = w.create_event();
  int argument = 0;
  call.call = {[](void* p) noexcept { ++*static_cast<int*>(p); }, &argument};
  REQUIRE(!w.launch(a, work()));
  REQUIRE(!w.launch(a, record));
  REQUIRE(!w.launch(b, wait));
  REQUIRE(!w.launch(b, call));
  CHECK(w.pending() == 1);
  CHECK(!w.try_take_call());
  CHECK(take(w, a) == 1);
  w.done(a, 1);
  const auto due = w.try_take_call();
  REQUIRE(due);
  due->function(due->argument);
  CHECK(argument == 1);
  CHECK(!w.idle(b));
  w.call_done(due->stream);
  CHECK(w.idle());
}

TEST_CASE("what is launched after a drop stands behind what stayed, and nothing else") {
  entry_pool pool(16);
  waitlist w(pool);
  stream_id s{};
  REQUIRE(!w.create_stream(stream_kind::blocking, s));
  REQUIRE(!w.launch(s, work()));
  REQUIRE(!w.launch(stream_default, work()));
  REQUIRE(!w.launch(s, work()));
  CHECK(take(w, s) == 1);
  w.drop_pending();
  CHECK(w.pending() == 0);
  REQUIRE(!w.launch(s, work()));
  CHECK(w.has_active(s)); // the legacy launch between them was dropped
  CHECK(take(w, s) == 1);
  w.done(s, 2);
  CHECK(w.idle());
}

TEST_CASE("a host function holds back its stream until it has returned") {
  entry_pool pool(16);
  waitlist w(pool);
  int calls = 0;
  REQUIRE(!w.launch(stream_default, work()));
  REQUIRE(!w.call(stream_default, {[](void* p) noexcept { ++*static_cast<int*>(p); }, &calls}));
  REQUIRE(!w.launch(stream_default, work()));
  CHECK(take(w, stream_default) == 1);
  CHECK(!w.has_active()); // the lane cannot order host functions
  w.done(stream_default, 1);
  CHECK(w.has_active());
  const auto due = w.try_take_call();
  REQUIRE(due);
  CHECK(!w.try_take_call());
  CHECK(!w.has_active());
  w.call_done(due->stream);
  CHECK(take(w, stream_default) == 1);
}

TEST_CASE("handles that the job does not have are refused, and nothing changes") {
  entry_pool pool(16);
  waitlist w(pool);
  stream_id s{};
  REQUIRE(!w.create_stream(stream_kind::blocking, s));
  const event_id e = w.create_event();
  const stream_id nowhere{99};
  CHECK(w.launch(nowhere, work()) == errc::bad_handle);
  CHECK(w.launch(nowhere, some_programs()[0]) == errc::bad_handle);
  CHECK(w.call(nowhere, {}) == errc::bad_handle);
  CHECK(w.record(e, nowhere) == errc::bad_handle);
  CHECK(w.wait(nowhere, e) == errc::bad_handle);
  CHECK(w.wait(s, event_id{7}) == errc::bad_handle);
  CHECK(w.wait(s, no_event) == errc::bad_handle);
  CHECK(w.record(no_event, s) == errc::bad_handle);
  CHECK(w.destroy_stream(nowhere) == errc::bad_handle);
  CHECK(w.destroy_stream(stream_default) == errc::bad_handle);
  CHECK(w.destroy_stream(stream_per_thread) == errc::bad_handle);
  CHECK(w.destroy_event(no_event) == errc::bad_handle);
  CHECK(w.idle());
  CHECK(w.pending() == 0);

  REQUIRE(!w.launch(s, work()));
  REQUIRE(!w.destroy_stream(s));
  CHECK(w.launch(s, work()) == errc::bad_handle);
  CHECK(w.destroy_stream(s) == errc::bad_handle);
  CHECK(take(w, s) == 1); // its work still runs
  w.done(s, 1);
  CHECK(w.idle());
  REQUIRE(!w.destroy_event(e));
  CHECK(w.record(e, stream_default) == errc::bad_handle);
}

TEST_CASE("a lane is kept while its stream has work in flight") {
  entry_pool pool(16);
  waitlist w(pool);
  REQUIRE(!w.launch(stream_default, some_programs()[2]));
  std::array<const operation*, 1> buffer{};
  const auto first = w.try_cut(tick, buffer);
  REQUIRE(first);
  w.bind(stream_default, lane_id{3});
  CHECK(w.lane(stream_legacy) == lane_id{3});
  const auto second = w.try_cut(run_to_completion, buffer);
  REQUIRE(second);
  CHECK(second->first == first->operations.size());
  CHECK(second->last_work);
  w.done(stream_default, first->operations.size());
  CHECK(w.lane(stream_default) == lane_id{3});
  w.undo(stream_default, second->operations.size());
  CHECK(!w.lane(stream_default));
  CHECK(w.has_active());
}

TEST_CASE("loose operations are cut as a program of the same times is") {
  generator r(7);
  entry_pool pool(64);
  for (int round = 0; round < 300; ++round) {
    std::vector<operation> ops(1 + below(r, 12));
    for (operation& op : ops) op.expected = duration{static_cast<int>(below(r, 5)) * 3};
    const program p("p", ops);
    waitlist loose(pool), whole(pool);
    for (const operation& op : ops) REQUIRE(!loose.launch(stream_default, op));
    REQUIRE(!whole.launch(stream_default, p));
    std::array<const operation*, 16> buffer{};
    while (whole.has_active()) {
      const duration q{static_cast<int>(below(r, 30))};
      const auto a = loose.try_cut(q, buffer), b = whole.try_cut(q, {});
      REQUIRE(a);
      REQUIRE(b);
      REQUIRE(a->operations.size() == b->operations.size());
      REQUIRE(a->expected == b->expected);
      REQUIRE(a->last_work == b->last_work);
    }
    REQUIRE(!loose.has_active());
  }
}

TEST_CASE("the head says how many copies come before anything else, and they are taken as such") {
  entry_pool pool;
  waitlist w(pool);
  operation copy = work();
  copy.kind = operation_kind::memcpy;
  operation set = work(duration{3});
  set.kind = operation_kind::memset;
  CHECK_FALSE(w.head(8));
  for (const operation& op : {copy, set, copy, work(), copy})
    CHECK_FALSE(w.launch(stream_default, op));
  std::array<const operation*, 8> buffer{};
  REQUIRE(w.head(8));
  CHECK(w.head(8)->graph == nullptr);
  CHECK(w.head(8)->copies == 3);
  CHECK(w.head(2)->copies == 2);
  CHECK(w.head(0)->copies == 0);
  const cut c = w.take_head(3, buffer);
  CHECK(c.operations.size() == 3);
  CHECK(c.expected == duration{23});
  CHECK(c.program == no_program);
  CHECK_FALSE(c.last_work);
  CHECK(w.head(8)->copies == 0); // a kernel is next
  w.undo(stream_default, 1);
  CHECK(w.head(8)->copies == 1);
}

TEST_CASE("a measured cut is taken as it is only while nothing has changed") {
  entry_pool pool(64);
  waitlist w(pool);
  std::array<const operation*, 8> buffer{};
  const duration quantum = 4 * tick;
  const auto again = [&](const cut_extent& known) {
    const cut_extent now = w.measure(quantum, buffer.size());
    const auto c = w.try_cut(known, quantum, buffer);
    REQUIRE(c);
    CHECK(c->operations.size() == now.operations);
    CHECK(c->expected == now.expected);
    return *c;
  };

  REQUIRE(!w.launch(stream_default, work()));
  const cut_extent one = w.measure(quantum, buffer.size());
  CHECK(one.operations == 1);
  REQUIRE(!w.launch(stream_default, work())); // the cut has grown
  const cut both = again(one);
  CHECK(both.operations.size() == 2);
  const cut_extent none = w.measure(quantum, buffer.size());
  CHECK(none.operations == 0);
  w.undo(stream_default, 2); // there is one again
  CHECK(again(none).operations.size() == 2);
  w.done(stream_default, 2);

  const program& p = some_programs()[2];
  REQUIRE(!w.launch(stream_default, p));
  const cut_extent first = w.measure(tick, 0);
  const cut_extent other = w.measure(quantum, 0);
  CHECK(w.try_cut(first, tick, {})->operations.size() == first.operations);
  const cut rest = again(other); // measured at an operation that was taken since
  CHECK(rest.first == first.operations);
  CHECK_FALSE(waitlist(pool).try_cut(other, quantum, buffer));
}

TEST_CASE("loose operations need a buffer; without one nothing is taken") {
  entry_pool pool(16);
  waitlist w(pool);
  REQUIRE(!w.launch(stream_default, work()));
  CHECK(!w.try_cut(tick, {}));
  CHECK(w.in_flight() == 0);
  CHECK(w.has_active());
}

TEST_CASE("reset forgets everything, and the parts go back to the pool") {
  entry_pool pool(64);
  waitlist w(pool);
  const std::size_t made = pool.made();
  for (int round = 0; round < 100; ++round) {
    std::vector<stream_id> streams(100);
    for (stream_id& s : streams)
      REQUIRE(!w.create_stream(round % 2 ? stream_kind::blocking : stream_kind::non_blocking, s));
    const event_id e = w.create_event();
    REQUIRE(index(e) == 0);
    REQUIRE(w.complete(e));
    for (std::size_t i = 0; i < 10; ++i) {
      REQUIRE(!w.launch(streams[i], work()));
      REQUIRE(!w.record(e, streams[i]));
      REQUIRE(!w.wait(streams[i + 50], e));
      REQUIRE(!w.launch(streams[i + 50], work()));
      REQUIRE(!w.launch(stream_default, work()));
    }
    take(w, streams[0]);
    w.reset(round % 3 ? default_stream::legacy : default_stream::per_thread);
    REQUIRE(w.idle());
    REQUIRE(!w.has_active());
    REQUIRE(w.pending() == 0);
    REQUIRE(!w.has(streams[0]));
    REQUIRE(!w.has(e));
  }
  CHECK(pool.made() == made);
}

TEST_CASE("thousands of streams, a chain of events across all of them") {
  entry_pool pool(64);
  waitlist w(pool);
  std::vector<stream_id> streams(5000);
  for (stream_id& s : streams) REQUIRE(!w.create_stream(stream_kind::non_blocking, s));
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const event_id e = w.create_event();
    if (i == 0) REQUIRE(!w.launch(streams[0], work()));
    if (i > 0) REQUIRE(!w.wait(streams[i], event_id{index(e) - 1}));
    REQUIRE(!w.record(e, streams[i]));
  }
  CHECK(take(w, streams[0]) == 1);
  CHECK(!w.complete(event_id{4999}));
  w.done(streams[0], 1); // wakes one after another, without recursion
  CHECK(w.complete(event_id{4999}));
  CHECK(w.idle());
}
