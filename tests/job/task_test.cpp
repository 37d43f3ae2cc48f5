// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"

#include <gsched/job/context.hpp>
#include <gsched/job/frame_pool.hpp>
#include <gsched/job/task.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace gsched;
using gsched::testing::allocations;

namespace {

operation some_work() {
  operation op;
  op.expected = duration{10};
  return op;
}

/// A dispatcher of one job that submits and ends one operation at a time.
struct rig {
  entry_pool entries{64};
  frame_pool frames;
  job_context context{entries, frames};

  /// Submits and ends one operation; returns false if there is none.
  bool run_one() {
    std::array<const operation*, 1> buffer{};
    const auto c = context.list().try_cut(duration{10}, buffer);
    if (!c) return false;
    context.list().done(c->stream, c->operations.size());
    return true;
  }
  /// Runs until the body and its work have ended.
  void run_all() {
    while (!context.finished() || !context.list().idle()) {
      const bool ran = run_one();
      if (const auto call = context.list().try_take_call()) {
        call->function(call->argument);
        context.list().call_done(call->stream);
      } else if (!context.resume_if_ready()) {
        REQUIRE(ran);
      }
    }
  }
  [[nodiscard]] std::string failure() const {
    try {
      if (context.failure()) std::rethrow_exception(context.failure());
    } catch (const std::exception& e) {
      return e.what();
    }
    return {};
  }
};

/// Counts its live instances.
struct guard {
  explicit guard(int& n) noexcept : live(&n) { ++n; }
  guard(const guard&) = delete;
  ~guard() { --*live; }
  int* live;
};

task two_synchronisations(job_context& c) {
  c.launch(some_work());
  co_await c.synchronize();
  c.launch(some_work());
  co_await c.synchronize();
}

template <class A>
concept awaitable_in_task =
    requires(task::promise_type& p, A a) { p.await_transform(std::move(a)); };

} // namespace

// Only awaitables of the dispatcher can be awaited.
static_assert(awaitable_in_task<task>);
static_assert(awaitable_in_task<job_context::synchronisation>);
static_assert(!awaitable_in_task<std::suspend_always>);
static_assert(!awaitable_in_task<int>);
static_assert(!std::copy_constructible<task>);

TEST_CASE("a synchronous call suspends the job until its work has ended") {
  rig r;
  r.context.start(two_synchronisations);
  CHECK(!r.context.finished());
  CHECK(!r.context.resume_if_ready());
  CHECK(r.run_one());
  CHECK(r.context.resume_if_ready());
  CHECK(!r.context.resume_if_ready());
  CHECK(!r.context.finished());
  CHECK(r.run_one());
  CHECK(r.context.resume_if_ready());
  CHECK(r.context.finished());
  CHECK(!r.context.failure());
  CHECK(!r.context.resume_if_ready());
}

TEST_CASE("a synchronise that holds already does not suspend") {
  rig r;
  auto body = [](job_context& c) -> task {
    co_await c.synchronize();
    co_await c.synchronize(stream_default);
    co_await c.synchronize(c.create_event());
  };
  r.context.start(body);
  CHECK(r.context.finished());
}

TEST_CASE("a body waits for a stream or an event alone") {
  rig r;
  std::vector<int> seen;
  auto body = [&seen](job_context& c) -> task {
    const stream_id a = c.create_stream(stream_kind::non_blocking);
    const stream_id b = c.create_stream(stream_kind::non_blocking);
    const event_id e = c.create_event();
    c.launch(a, some_work());
    c.launch(b, some_work());
    c.record(e, b);
    c.launch(b, some_work());
    c.launch(b, some_work());
    co_await c.synchronize(a);
    seen.push_back(1);
    co_await c.synchronize(e);
    seen.push_back(2);
    co_await c.synchronize(b);
    seen.push_back(3);
  };
  r.context.start(body);
  CHECK(r.run_one()); // a's
  CHECK(r.context.resume_if_ready());
  CHECK(seen == std::vector{1});
  CHECK(r.run_one()); // b's first
  CHECK(r.context.resume_if_ready());
  CHECK(seen == std::vector{1, 2});
  CHECK(r.run_one());
  CHECK(!r.context.resume_if_ready());
  r.run_all();
  CHECK(seen == std::vector{1, 2, 3});
}

TEST_CASE("copies, memsets, host functions and waits go to the waitlist") {
  rig r;
  int calls = 0;
  auto body = [&calls](job_context& c) -> task {
    const stream_id s = c.create_stream();
    const event_id e = c.create_event();
    c.copy_async(s, copy_direction::host_to_device, byte_count{64});
    c.memset_async(s, byte_count{64});
    c.record(e, s);
    c.wait(c.default_stream(), e);
    c.call(s, {[](void* p) noexcept { ++*static_cast<int*>(p); }, &calls});
    co_await c.copy(copy_direction::device_to_host, byte_count{8}, duration{5});
    CHECK(calls == 1); // the copy is in the legacy stream
    c.destroy_stream(s);
    c.destroy_event(e);
  };
  r.context.start(body);
  CHECK(r.context.list().pending() == 3);
  r.run_all();
  CHECK(r.failure() == "");
}

TEST_CASE("a body without a coroutine has ended at once") {
  rig r;
  auto body = [](job_context& c) -> task {
    c.launch(some_work());
    return {};
  };
  r.context.start(body);
  CHECK(r.context.finished());
  CHECK(r.context.list().pending() == 1);
  CHECK(!r.context.failure());
}

TEST_CASE("the job of a body that returned has its launched work left") {
  rig r;
  auto body = [](job_context& c) -> task {
    c.launch(some_work());
    co_return;
  };
  r.context.start(body);
  CHECK(r.context.finished());
  CHECK(r.context.launches_no_more());
  CHECK(!r.context.list().idle());
  r.run_all();
  CHECK(r.context.list().idle());
}

TEST_CASE("the annotation is heard before the body ends") {
  rig r;
  auto body = [](job_context& c) -> task {
    c.launch(some_work());
    co_await c.synchronize();
    c.launch(some_work());
    c.almost_finished();
    co_await c.synchronize();
  };
  r.context.start(body);
  CHECK(!r.context.launches_no_more());
  CHECK(r.run_one());
  CHECK(r.context.resume_if_ready());
  CHECK(r.context.launches_no_more());
  CHECK(!r.context.finished());
  r.run_all();
  r.context.reset();
  CHECK(!r.context.launches_no_more());
}

TEST_CASE("an exception ends the body, and is kept") {
  rig r;
  SUBCASE("at once") {
    auto body = [](job_context&) -> task {
      throw std::runtime_error("at once");
      co_return;
    };
    r.context.start(body);
    CHECK(r.context.finished());
    CHECK(r.failure() == "at once");
  }
  SUBCASE("after a synchronise, with destructors run") {
    int live = 0;
    auto body = [&live](job_context& c) -> task {
      const guard g(live);
      c.launch(some_work());
      co_await c.synchronize();
      throw std::runtime_error("later");
    };
    r.context.start(body);
    CHECK(live == 1);
    r.run_all();
    CHECK(live == 0);
    CHECK(r.failure() == "later");
  }
  SUBCASE("before there is a coroutine") {
    auto body = [](job_context&) -> task { throw std::runtime_error("early"); };
    r.context.start(body);
    CHECK(r.context.finished());
    CHECK(r.failure() == "early");
  }
  SUBCASE("which a bad handle throws") {
    auto body = [](job_context& c) -> task {
      c.launch(stream_id{42}, some_work());
      co_return;
    };
    r.context.start(body);
    CHECK(r.failure() == "launch: handle 42, expected a live stream or event of this job");
  }
  SUBCASE("unless it catches it") {
    auto body = [](job_context& c) -> task {
      bool caught = false;
      try {
        co_await c.synchronize(event_id{3});
      } catch (const error& e) {
        caught = e.code() == errc::bad_handle;
      }
      if (!caught) throw std::runtime_error("not caught");
      c.launch(some_work());
      co_await c.synchronize();
    };
    r.context.start(body);
    r.run_all();
    CHECK(r.failure() == "");
  }
  CHECK(r.frames.in_use() == 0);
}

namespace {

task inner(job_context& c, int depth, int& live, bool fail) {
  const guard g(live);
  if (depth > 0) {
    co_await inner(c, depth - 1, live, fail);
  } else {
    c.launch(some_work());
    co_await c.synchronize();
    if (fail) throw std::runtime_error("innermost");
  }
}

} // namespace

TEST_CASE("nested tasks suspend, return and throw through their parents") {
  rig r;
  int live = 0;
  bool caught = false;
  auto body = [&](job_context& c) -> task {
    co_await inner(c, 5, live, false);
    try {
      co_await inner(c, 5, live, true);
    } catch (const std::runtime_error&) {
      caught = true;
    }
    co_await inner(c, 2, live, true);
  };
  r.context.start(body);
  CHECK(live == 6);
  CHECK(r.run_one());
  CHECK(r.context.resume_if_ready());
  CHECK(!caught);
  CHECK(live == 6);
  r.run_all();
  CHECK(caught);
  CHECK(live == 0);
  CHECK(r.failure() == "innermost");
  CHECK(r.frames.in_use() == 0);
}

TEST_CASE("a hundred thousand nested tasks in turn use no stack") {
  rig r;
  int live = 0;
  std::size_t done = 0;
  auto nothing = [](job_context&) -> task { co_return; };
  auto body = [&](job_context& c) -> task {
    for (; done < 100000; ++done) co_await nothing(c);
    co_await inner(c, 3000, live, false); // and deep ones with one frame each
  };
  r.context.start(body);
  CHECK(done == 100000);
  CHECK(live == 3001);
  r.run_all();
  CHECK(live == 0);
}

TEST_CASE("cancelling destroys the body where it is suspended") {
  rig r;
  int live = 0;
  bool seen = false;
  struct launcher { // a destructor that launches must not revive the job
    job_context& c;
    bool& seen;
    ~launcher() {
      seen = c.cancelled();
      c.launch(some_work());
    }
  };
  auto body = [&](job_context& c) -> task {
    const guard g(live);
    const launcher l{c, seen};
    co_await inner(c, 4, live, false);
    FAIL("resumed after its end");
  };
  r.context.start(body);
  CHECK(live == 6);
  r.context.cancel();
  CHECK(live == 0);
  CHECK(seen);
  CHECK(!r.context.finished());
  CHECK(!r.context.resume_if_ready());
  CHECK(r.context.list().pending() == 1);
  r.context.list().drop_pending();
  CHECK(r.context.list().idle());
  CHECK(r.frames.in_use() == 0);
  r.context.cancel(); // a second cancel has no effect
  r.context.reset();
  CHECK(!r.context.cancelled());
  r.context.start(two_synchronisations);
  r.run_all();
  CHECK(r.failure() == "");
}

TEST_CASE("a body that cancels its own job goes on until it suspends") {
  rig r;
  int live = 0;
  bool went_on = false;
  auto body = [&](job_context& c) -> task {
    const guard g(live);
    c.launch(some_work());
    c.cancel();
    went_on = c.cancelled();
    co_await c.synchronize();
    FAIL("resumed after its end");
  };
  r.context.start(body);
  CHECK(went_on);
  CHECK(live == 0);
  CHECK(!r.context.finished());
  CHECK(r.frames.in_use() == 0);
}

TEST_CASE("a context that goes takes its body along") {
  int live = 0;
  entry_pool entries(16);
  frame_pool frames;
  auto body = [&](job_context& c) -> task { co_await inner(c, 1, live, false); };
  {
    job_context c(entries, frames);
    c.start(body);
    CHECK(live == 2);
  }
  CHECK(live == 0);
  CHECK(frames.in_use() == 0);
}

namespace {

struct functor {
  int runs = 0;
  task operator()(job_context& c) {
    ++runs;
    c.launch(some_work());
    co_await c.synchronize();
  }
};

struct const_functor {
  std::size_t in_use = 0;
  task operator()(job_context& c) const {
    c.launch(some_work());
    co_await c.copy(copy_direction::device_to_host, byte_count{4});
  }
};

/// No context among its arguments.
[[gnu::noinline]] task detached(int n) {
  static_cast<void>(n);
  co_return;
}

/// Prevents the compiler from eliding the frame.
[[gnu::noinline]] void keep(const task&) { asm volatile("" ::: "memory"); }

} // namespace

TEST_CASE("frames of functions, lambdas and functors come from the pool") {
  rig r;
  functor f;
  const const_functor cf;
  auto lambda = [](job_context& c) -> task {
    c.launch(some_work());
    co_await c.synchronize();
  };
  for (const job_body body :
       {job_body(two_synchronisations), job_body(f), job_body(cf), job_body(lambda)}) {
    const task t = body(r.context);
    keep(t);
    CHECK(r.frames.in_use() == 1);
  }
  CHECK(r.frames.in_use() == 0);
  const std::size_t before = allocations();
  {
    const task t = detached(1);
    keep(t);
    CHECK(r.frames.in_use() == 0);
  }
  CHECK(allocations() == before + 1);
}

TEST_CASE("jobs in steady state allocate nothing") {
  entry_pool entries(256);
  frame_pool frames;
  std::vector<std::unique_ptr<job_context>> jobs;
  for (int i = 0; i < 8; ++i) jobs.push_back(std::make_unique<job_context>(entries, frames));
  functor f;
  const const_functor cf;
  int live = 0;
  auto nested = [&live](job_context& c) -> task {
    const stream_id s = c.create_stream();
    const event_id e = c.create_event();
    c.launch(s, some_work());
    c.record(e, s);
    co_await inner(c, 3, live, false);
    co_await c.synchronize(e);
  };
  const auto round = [&] {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      job_context& c = *jobs[i];
      c.reset();
      if (i % 3 == 0) c.start(f);
      if (i % 3 == 1) c.start(cf);
      if (i % 3 == 2) c.start(nested);
    }
    for (std::size_t left = jobs.size(); left > 0;) {
      left = 0;
      for (auto& j : jobs) {
        std::array<const operation*, 2> buffer{};
        if (const auto c = j->list().try_cut(duration{10}, buffer))
          j->list().done(c->stream, c->operations.size());
        j->resume_if_ready();
        if (!j->finished() || !j->list().idle()) ++left;
      }
    }
  };
  for (int i = 0; i < 3; ++i) round();
  const std::size_t before = allocations();
  for (int i = 0; i < 1000; ++i) round();
  CHECK(allocations() == before);
  CHECK(f.runs == 3 * 1003);
  CHECK(live == 0);
}

TEST_CASE("the frame pool's blocks are aligned, apart and used again") {
  frame_pool pool;
  std::vector<std::pair<void*, std::size_t>> blocks;
  for (std::size_t bytes = 1; bytes < 6000; bytes += 97) {
    void* const p = frame_pool::allocate(&pool, bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % __STDCPP_DEFAULT_NEW_ALIGNMENT__ == 0);
    std::fill_n(static_cast<char*>(p), bytes, static_cast<char>(bytes));
    blocks.emplace_back(p, bytes);
  }
  for (const auto& [p, bytes] : blocks) {
    const char* const c = static_cast<const char*>(p);
    CHECK(std::count(c, c + bytes, static_cast<char>(bytes)) == static_cast<std::ptrdiff_t>(bytes));
    frame_pool::deallocate(p, bytes);
  }
  CHECK(pool.in_use() == 0);
  void* const last = frame_pool::allocate(&pool, 600);
  frame_pool::deallocate(last, 600);
  const std::size_t before = allocations();
  void* const again = frame_pool::allocate(&pool, 510); // the same size class
  CHECK(again == last);
  frame_pool::deallocate(again, 510);
  CHECK(allocations() == before);
}

TEST_CASE("reserved frames need no allocation") {
  frame_pool pool;
  pool.reserve(100, 300);
  const std::size_t before = allocations();
  std::array<void*, 100> blocks{};
  for (void*& b : blocks) b = frame_pool::allocate(&pool, 300);
  CHECK(allocations() == before);
  for (void* b : blocks) frame_pool::deallocate(b, 300);
}
