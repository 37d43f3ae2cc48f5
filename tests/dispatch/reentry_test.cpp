// SPDX-License-Identifier: Apache-2.0
// Bodies and host functions that call their own dispatcher.
#include "dispatch/rig.hpp"

#include <gsched/policy/fifo.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>

using namespace gsched;

namespace {
/// Job ids start at 0, so the first job knows its own.
constexpr job_id first_job{0};

void check_ended_cancelled(rig<fifo>& r) {
  r.run();
  const dispatch_statistics& s = r.dispatch.statistics();
  CHECK(s.submitted == 1);
  CHECK(s.cancelled == 1);
  CHECK(s.ended() == 1);
  CHECK(r.hears.ends.size() == 1);
  CHECK(r.account.outstanding() == 0);
}
} // namespace

TEST_CASE("dispatcher: a body that cancels its own job ends it once, wherever it stands") {
  for (const int launches_before : {0, 1, 2}) {
    for (const bool throws : {false, true}) {
      CAPTURE(launches_before);
      CAPTURE(throws);
      rig<fifo> r;
      program& p = r.make_program("p", 20, from_us(10));
      const auto guard = std::make_shared<int>(0);
      auto body = [&, guard](job_context& ctx) -> task {
        const auto held = guard;
        for (int i = 0; i < launches_before; ++i) {
          ctx.launch(p);
          co_await ctx.synchronize();
        }
        ctx.launch(p);
        CHECK(r.dispatch.cancel(first_job));
        CHECK_FALSE(r.dispatch.cancel(first_job));
        CHECK(r.dispatch.statistics().active == 1);
        ctx.launch(p); // no effect, as for any cancelled job
        if (throws) throw std::runtime_error("after it was cancelled");
        co_await ctx.synchronize();
      };
      const model_id m = r.dispatch.add_model("m", body, &p);
      static_cast<void>(r.dispatch.submit(r.request(m, r.dispatch.add_client())));
      check_ended_cancelled(r);
      CHECK(r.dispatch.statistics().operations ==
            static_cast<std::uint64_t>(launches_before) * p.size());
      CHECK(guard.use_count() == 2); // the lambda's and ours
    }
  }
}

TEST_CASE("dispatcher: a host function that cancels its own job ends it once") {
  for (const bool work_before : {false, true}) {
    CAPTURE(work_before);
    rig<fifo> r;
    program& p = r.make_program("p", 20, from_us(10));
    const auto cancel = [](void* at) noexcept {
      static_cast<void>(static_cast<rig<fifo>*>(at)->dispatch.cancel(first_job));
    };
    auto body = [&](job_context& ctx) -> task {
      if (work_before) ctx.launch(p);
      ctx.call(ctx.default_stream(), {cancel, &r});
      ctx.launch(p);
      co_await ctx.synchronize();
    };
    const model_id m = r.dispatch.add_model("m", body, &p);
    static_cast<void>(r.dispatch.submit(r.request(m, r.dispatch.add_client())));
    check_ended_cancelled(r);
    CHECK(r.dispatch.statistics().operations == (work_before ? p.size() : 0));
    CHECK(r.dispatch.statistics().host_calls == 1);
  }
}

TEST_CASE("dispatcher: a body may submit and cancel other jobs") {
  rig<fifo> r;
  program& p = r.make_program("p", 20, from_us(10));
  client& c = r.dispatch.add_client();
  auto child = [&](job_context& ctx) -> task {
    ctx.launch(p);
    co_await ctx.synchronize();
  };
  const model_id children = r.dispatch.add_model("child", child, &p);
  auto parent = [&](job_context& ctx) -> task {
    const job_id gone = r.dispatch.submit(r.request(children, c));
    static_cast<void>(r.dispatch.submit(r.request(children, c)));
    ctx.launch(p);
    co_await ctx.synchronize();
    static_cast<void>(r.dispatch.cancel(gone));
    static_cast<void>(r.dispatch.submit(r.request(children, c)));
  };
  const model_id parents = r.dispatch.add_model("parent", parent, &p);
  for (int i = 0; i < 50; ++i) static_cast<void>(r.dispatch.submit(r.request(parents, c)));
  r.run();
  const dispatch_statistics& s = r.dispatch.statistics();
  CHECK(s.submitted == 200);
  CHECK(s.ended() == 200);
  CHECK(s.failed == 0);
  CHECK(r.account.outstanding() == 0);
}
