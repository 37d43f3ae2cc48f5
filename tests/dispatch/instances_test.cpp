// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rig.hpp"

#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

using namespace gsched;

namespace {

/// Tracks which instances are held, from within the bodies.
struct instance_watch {
  std::set<std::uint32_t> held;
  std::size_t most = 0;
  bool shared = false;
  std::vector<job_id> starts;
};

struct holder {
  instance_watch& watch;
  std::uint32_t which;
  holder(instance_watch& w, std::uint32_t i) : watch(w), which(i) {
    watch.shared |= !watch.held.insert(i).second;
    watch.most = std::max(watch.most, watch.held.size());
  }
  ~holder() { watch.held.erase(which); }
};

auto holding(const program& p, instance_watch& watch) {
  return [&p, &watch](job_context& ctx) -> task {
    const holder h(watch, ctx.instance);
    ctx.launch(p);
    co_await ctx.synchronize();
  };
}

} // namespace

TEST_CASE("instances: as many jobs of a model at once as it has, each with its own") {
  for (const std::uint32_t instances : {1u, 2u, 5u, 64u}) {
    rig<srpt> r;
    program& p = r.make_program("p", 20, from_us(20));
    instance_watch watch;
    auto body = holding(p, watch);
    const model_id m = r.dispatch.add_model("p", body, &p, instances);
    client& c = r.dispatch.add_client();
    for (int i = 0; i < 50; ++i) static_cast<void>(r.dispatch.submit(r.request(m, c)));
    r.run();
    CHECK(r.dispatch.statistics().finished == 50);
    CHECK_FALSE(watch.shared);
    CHECK(watch.held.empty());
    CHECK(watch.most == std::min<std::size_t>(instances, 50));
  }
}

TEST_CASE("instances: a model without a limit starts every job") {
  rig<srpt> r;
  program& p = r.make_program("p", 20, from_us(20));
  int started = 0;
  auto body = [&](job_context& ctx) -> task {
    ++started;
    ctx.launch(p);
    co_return;
  };
  const model_id m = r.dispatch.add_model("p", body, &p);
  client& c = r.dispatch.add_client();
  for (int i = 0; i < 30; ++i) static_cast<void>(r.dispatch.submit(r.request(m, c)));
  CHECK(started == 30);
  r.run();
}

TEST_CASE("instances: those that wait start as the policy says: by class, deadline and id") {
  rig<gsched::priority<edf, edf>> r;
  program& p = r.make_program("p", 4, from_us(20));
  auto body = [&](job_context& ctx) -> task {
    ctx.launch(p);
    co_return;
  };
  const model_id m = r.dispatch.add_model("p", body, &p, 1u);
  client& c = r.dispatch.add_client();
  std::vector<job_id> ids;
  const auto submit = [&](service_class service, int deadline_us) {
    job_request q = r.request(m, c);
    q.service = service;
    if (deadline_us > 0) q.deadline = time_point{} + from_us(deadline_us);
    ids.push_back(r.dispatch.submit(q));
  };
  submit(service_class::best_effort, 0); // starts at once
  submit(service_class::best_effort, 0);
  submit(service_class::best_effort, 900);
  submit(service_class::best_effort, 800);
  submit(service_class::real_time, 0);
  submit(service_class::best_effort, 0);
  r.run();
  std::vector<std::size_t> order;
  for (const auto& e : r.hears.ends)
    order.push_back(
        static_cast<std::size_t>(std::find(ids.begin(), ids.end(), e.id) - ids.begin()));
  CHECK(order == std::vector<std::size_t>{0, 4, 3, 2, 1, 5});
}

TEST_CASE("instances: a late comer does not overtake those that wait, free instance or not") {
  rig<fifo> r;
  program& p = r.make_program("p", 1, from_us(20));
  auto body = [&](job_context& ctx) -> task {
    ctx.launch(p);
    co_return;
  };
  const model_id m = r.dispatch.add_model("p", body, &p, 1u);
  client& c = r.dispatch.add_client();
  const job_id first = r.dispatch.submit(r.request(m, c));
  const job_id second = r.dispatch.submit(r.request(m, c));
  CHECK(r.dispatch.cancel(first)); // nothing of it is in flight: the instance is free at once
  const job_id third = r.dispatch.submit(r.request(m, c));
  r.run();
  REQUIRE(r.hears.ends.size() == 3);
  CHECK(r.hears.ends[1].id == second);
  CHECK(r.hears.ends[2].id == third);
}

TEST_CASE("instances: waiting jobs can be cancelled, one by one or all, and destroyed") {
  rig<srpt> r;
  program& p = r.make_program("p", 20, from_us(20));
  instance_watch watch;
  auto body = holding(p, watch);
  const model_id m = r.dispatch.add_model("p", body, &p, 2u);
  client& c = r.dispatch.add_client();
  std::mt19937_64 random(3);
  std::vector<job_id> ids;
  for (int i = 0; i < 200; ++i) {
    ids.push_back(r.dispatch.submit(r.request(m, c)));
    if (random() % 3 == 0) static_cast<void>(r.dispatch.cancel(ids[random() % ids.size()]));
    if (random() % 4 == 0) static_cast<void>(r.step_once());
  }
  r.run();
  CHECK(r.dispatch.statistics().ended() == 200);
  CHECK(r.dispatch.statistics().cancelled > 10);
  CHECK_FALSE(watch.shared);
  for (int i = 0; i < 10; ++i) static_cast<void>(r.dispatch.submit(r.request(m, c)));
  r.dispatch.cancel_all();
  r.run();
  CHECK(r.dispatch.idle());
  CHECK(watch.held.empty());
}

TEST_CASE("instances: jobs that end in their body hand theirs on, however many wait") {
  rig<srpt> r;
  program& p = r.make_program("p", 1, from_us(20));
  auto body = [&](job_context& ctx) -> task {
    if (ctx.user != nullptr) ctx.launch(p);
    co_return;
  };
  const model_id m = r.dispatch.add_model("p", body, &p, 1u);
  client& c = r.dispatch.add_client();
  job_request q = r.request(m, c);
  q.user = &r;
  static_cast<void>(r.dispatch.submit(q));
  q.user = nullptr;
  for (int i = 0; i < 100000; ++i) static_cast<void>(r.dispatch.submit(q));
  r.run();
  CHECK(r.dispatch.statistics().finished == 100001);
}

TEST_CASE("instances: a dispatcher that goes while jobs wait leaves nothing linked") {
  program* p = nullptr;
  auto body = [&](job_context& ctx) -> task {
    ctx.launch(*p);
    co_return;
  };
  rig<srpt> r;
  p = &r.make_program("p", 1, from_us(20));
  const model_id m = r.dispatch.add_model("p", body, p, 1u);
  client& c = r.dispatch.add_client();
  for (int i = 0; i < 5; ++i) static_cast<void>(r.dispatch.submit(r.request(m, c)));
}

TEST_CASE("instances: too many are refused") {
  CHECK_THROWS_WITH_AS(instance_pool(1u << 21), "instances: 2097152, expected at most 2^20", error);
}
