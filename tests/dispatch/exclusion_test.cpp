// SPDX-License-Identifier: Apache-2.0
// Models whose jobs exclude one another.
#include "allocations.hpp"
#include "dispatch/rig.hpp"
#include "sanitized.hpp"

#include <gsched/policy/fifo.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

using namespace gsched;

namespace {

/// Checks the exclusion at each start: no excluded model has a started job, and none has a waiting
/// job that comes first.
struct exclusion_watch {
  struct key {
    std::size_t model = 0;
    service_class service{};
    time_point deadline{};
    time_point arrival{};
    job_id id{};
    /// In the common order of models, or in that of the policy, fifo.
    [[nodiscard]] bool before(const key& o, bool common) const {
      if (!common) return std::tie(arrival, id) < std::tie(o.arrival, o.id);
      return std::tie(service, deadline, arrival, id) <
             std::tie(o.service, o.deadline, o.arrival, o.id);
    }
  };
  std::vector<std::vector<bool>> excludes{};
  std::map<job_id, key> waiting{};
  std::vector<int> running{};
  int overlaps = 0;
  int overtakings = 0;

  void start(std::size_t model, job_id id) {
    const key mine = waiting.at(id);
    waiting.erase(id);
    for (std::size_t m = 0; m < excludes.size(); ++m)
      overlaps += excludes[model][m] && running[m] > 0;
    const auto& row = excludes[model];
    const bool common = std::find(row.begin(), row.end(), true) != row.end();
    for (const auto& [other, k] : waiting)
      overtakings += (k.model == model || row[k.model]) && k.before(mine, common);
    ++running[model];
  }
};

struct running_job {
  exclusion_watch& watch;
  std::size_t model;
  running_job(exclusion_watch& w, std::size_t m, job_id id) : watch(w), model(m) { w.start(m, id); }
  ~running_job() { --watch.running[model]; }
};

/// The user data of a request.
struct asked {
  job_id id{};
  int rounds = 0;
};

/// Models on one dispatcher, with random exclusions.
struct exclusion_rig : rig<fifo> {
  struct body_of {
    exclusion_rig& r;
    std::size_t model;
    task operator()(job_context& ctx) {
      const auto& a = *static_cast<const asked*>(ctx.user);
      const running_job guard(r.watch, model, a.id);
      for (int i = 0; i < a.rounds; ++i) {
        ctx.launch(r.op);
        co_await ctx.synchronize();
      }
    }
  };

  /// instances[m] 0: unlimited.
  exclusion_rig(const std::vector<std::uint32_t>& instances,
                const std::vector<std::pair<std::size_t, std::size_t>>& edges) {
    const std::size_t n = instances.size();
    watch.excludes.assign(n, std::vector<bool>(n));
    watch.running.assign(n, 0);
    for (std::size_t m = 0; m < n; ++m) {
      bodies.push_back({*this, m});
      models.push_back(dispatch.add_model("m", bodies[m], nullptr, instances[m]));
    }
    for (const auto& [a, b] : edges) {
      dispatch.exclude(models[a], models[b]);
      watch.excludes[a][b] = watch.excludes[b][a] = true;
    }
    op.launch.grid = {16, 1, 1};
    op.launch.block = {128, 1, 1};
    op.launch.registers_per_thread = 32;
    op.expected = from_us(10);
  }

  job_id submit(std::size_t model, int rounds, bool real_time = false, int deadline = 0) {
    job_request q = request(models[model], c);
    jobs.push_back(std::make_unique<asked>(asked{job_id{next}, rounds}));
    q.user = jobs.back().get();
    if (real_time) q.service = service_class::real_time;
    if (deadline > 0) q.deadline = time_point{} + from_us(deadline);
    watch.waiting[job_id{next}] = {model, q.service, q.deadline, q.arrival.value(), job_id{next}};
    const job_id id = dispatch.submit(q);
    REQUIRE(id == job_id{next});
    ++next;
    return id;
  }
  void cancel(job_id id) {
    watch.waiting.erase(id);
    static_cast<void>(dispatch.cancel(id));
  }

  exclusion_watch watch;
  operation op;
  std::deque<body_of> bodies;
  std::vector<model_id> models;
  std::vector<std::unique_ptr<asked>> jobs;
  client& c = dispatch.add_client();
  std::uint64_t next = 0;
};

/// All pairs of n models, each with itself too.
[[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> pairs_of(std::size_t n) {
  std::vector<std::pair<std::size_t, std::size_t>> all;
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = a; b < n; ++b) all.emplace_back(a, b);
  return all;
}

/// All jobs end, and none starts while it is excluded.
void check_all_ended(exclusion_rig& r) {
  int rounds = 0;
  while (r.step_once()) REQUIRE(++rounds < 100'000); // otherwise they wait for one another
  CHECK(r.watch.overlaps == 0);
  CHECK(r.watch.overtakings == 0);
  CHECK(r.watch.waiting.empty());
  CHECK(r.dispatch.statistics().submitted == r.next);
  CHECK(r.dispatch.statistics().ended() == r.next);
}

} // namespace

TEST_CASE("exclusion: every graph of three models, every sequence of five jobs") {
  const auto pairs = pairs_of(3);
  for (std::uint32_t graph = 0; graph < 1u << pairs.size(); ++graph) {
    std::vector<std::pair<std::size_t, std::size_t>> edges;
    for (std::size_t e = 0; e < pairs.size(); ++e)
      if ((graph >> e & 1u) != 0) edges.push_back(pairs[e]);
    exclusion_rig r({0, 2, 1}, edges);
    for (std::uint32_t sequence = 0; sequence < 243; sequence += testing::sanitized ? 5 : 1) {
      CAPTURE(graph);
      CAPTURE(sequence);
      std::uint32_t rest = sequence;
      for (int i = 0; i < 5; ++i, rest /= 3) {
        r.submit(rest % 3, 1 + static_cast<int>((sequence + graph) >> i & 1u) * 2, i == 4);
        if (i % 2 == 1) r.step_once();
      }
      check_all_ended(r);
    }
  }
}

TEST_CASE("exclusion: every graph of four models, with drawn jobs, cancelled or not") {
  const auto pairs = pairs_of(4);
  for (std::uint32_t graph = 0; graph < 1u << pairs.size(); graph += testing::sanitized ? 13 : 1) {
    CAPTURE(graph);
    std::mt19937_64 random(graph);
    std::vector<std::pair<std::size_t, std::size_t>> edges;
    for (std::size_t e = 0; e < pairs.size(); ++e)
      if ((graph >> e & 1u) != 0) edges.push_back(pairs[e]);
    exclusion_rig r({0, 1, 3, 2}, edges);
    std::uint64_t most = 0;
    for (int i = 0; i < 60; ++i) {
      r.submit(random() % 4, static_cast<int>(random() % 4), random() % 4 == 0,
               static_cast<int>(random() % 3 * (1000 + random() % 5)));
      for (std::uint64_t n = random() % 3; n > 0; --n) r.step_once();
      if (random() % 4 == 0) r.cancel(job_id{random() % r.next});
      most = std::max(most, r.dispatch.statistics().active);
    }
    CHECK(most > 1);
    check_all_ended(r);
  }
}

TEST_CASE("exclusion: models that exclude one another run one at a time, others beside them") {
  exclusion_rig r({0, 0, 0}, {{0, 1}});
  for (int i = 0; i < 4; ++i) {
    r.submit(0, 3);
    r.submit(1, 3);
    r.submit(2, 3);
  }
  CHECK(r.watch.running[0] == 1); // the second of model 0 would overtake the first of model 1
  CHECK(r.watch.running[1] == 0);
  CHECK(r.watch.running[2] == 4);
  check_all_ended(r);
}

TEST_CASE("exclusion: a model that excludes itself runs one job at a time, on any instance") {
  for (const std::uint32_t instances : {0u, 1u, 3u}) {
    exclusion_rig r({instances}, {{0, 0}});
    for (int i = 0; i < 5; ++i) r.submit(0, 2);
    CHECK(r.watch.running[0] == 1);
    check_all_ended(r);
  }
}

TEST_CASE("exclusion: a stream of jobs of one model does not starve another, nor does a star") {
  exclusion_rig r({0, 0, 0, 0}, {{0, 1}, {0, 2}, {0, 3}});
  for (std::size_t leaf = 1; leaf < 4; ++leaf) r.submit(leaf, 3);
  const job_id centre = r.submit(0, 1);
  bool ended = false;
  for (int i = 0; i < 400 && !ended; ++i) {
    r.submit(1 + static_cast<std::size_t>(i) % 3, 2);
    r.step_once();
    ended = std::any_of(r.hears.ends.begin(), r.hears.ends.end(),
                        [&](const auto& e) { return e.id == centre; });
    REQUIRE(i < 50);
  }
  CHECK(ended);
  check_all_ended(r);
}

TEST_CASE("exclusion: a job that waits no longer lets those behind it start") {
  exclusion_rig r({1, 1, 1}, {{0, 1}, {1, 2}});
  r.submit(0, 50);
  const job_id between = r.submit(1, 1);
  r.submit(2, 1); // would overtake it
  r.step_once();
  CHECK(r.watch.running[2] == 0);
  r.cancel(between);
  static_cast<void>(r.dispatch.step());
  CHECK(r.watch.running[2] == 1);
  check_all_ended(r);
}

TEST_CASE("exclusion: one before all that wait starts at once if nothing is in its way") {
  exclusion_rig r({1, 1, 1}, {{0, 1}, {1, 2}});
  r.submit(0, 50);
  r.submit(1, 1);
  r.submit(2, 1, true); // it goes before the one that waits for the first
  CHECK(r.watch.running[2] == 1);
  check_all_ended(r);
}

TEST_CASE("exclusion: jobs that are held or follow another keep nobody out") {
  exclusion_rig r({0, 0}, {{0, 1}});
  job_request q = r.request(r.models[0], r.c);
  asked first{job_id{0}, 1};
  r.watch.waiting[job_id{0}] = {0, q.service, q.deadline, q.arrival.value(), job_id{0}};
  q.user = &first;
  q.held = true;
  const job_id held = r.dispatch.submit(q);
  r.next = 1;
  r.watch.waiting.erase(held);
  r.submit(1, 1);
  CHECK(r.watch.running[1] == 1);
  r.watch.waiting[held] = {0, q.service, q.deadline, q.arrival.value(), held};
  CHECK(r.dispatch.release(held));
  CHECK(r.watch.running[0] == 0);
  check_all_ended(r);
}

TEST_CASE("exclusion: nothing is allocated once as many jobs have waited as ever will") {
  exclusion_rig r({}, {});
  struct quiet {
    operation op;
    task operator()(job_context& ctx) {
      ctx.launch(op);
      co_return;
    }
  } body{r.op};
  const model_id a = r.dispatch.add_model("a", body);
  const model_id b = r.dispatch.add_model("b", body, nullptr, 2);
  r.dispatch.exclude(a, b);
  r.dispatch.exclude(b, b);
  const auto serve = [&] {
    for (int i = 0; i < 30; ++i)
      static_cast<void>(r.dispatch.submit(r.request(i % 3 == 0 ? a : b, r.c)));
    r.run();
  };
  for (int i = 0; i < 20; ++i) serve();
  r.hears.ends.reserve(10'000);
  r.hears.submits.reserve(10'000);
  const std::size_t before = gsched::testing::allocations();
  for (int i = 0; i < 20; ++i) serve();
  CHECK(gsched::testing::allocations() == before);
  CHECK(r.dispatch.statistics().finished == 40 * 30);
}

TEST_CASE("remove: a model goes with what it excluded, and its id is not used again") {
  exclusion_rig r({1, 1, 1}, {{0, 1}, {1, 2}, {1, 1}});
  const job_id id = r.submit(1, 3);
  CHECK_THROWS_WITH_AS(r.dispatch.remove(r.models[1]),
                       "m: 1 active jobs, expected none of a model to remove", error);
  CHECK_THROWS_WITH_AS(r.dispatch.remove(model_id{77}), "model 77: unknown", error);
  r.cancel(id);
  r.run();
  r.dispatch.remove(r.models[1]);
  CHECK_THROWS_WITH_AS(r.dispatch.remove(r.models[1]), "model 1: unknown", error);
  r.submit(0, 2);
  r.submit(2, 2);
  check_all_ended(r);
  auto body = [](job_context&) -> task { co_return; };
  CHECK(r.dispatch.add_model("new", body) == model_id{3});
}

TEST_CASE("remove: what waited for it was noted, and is not looked at any more") {
  exclusion_rig r({1, 1}, {{0, 1}});
  const job_id first = r.submit(0, 3);
  const job_id waits = r.submit(1, 1);
  r.cancel(first); // nothing of it is in flight: the other may start at the next step
  r.cancel(waits);
  r.dispatch.remove(r.models[1]);
  r.submit(0, 2);
  check_all_ended(r);
}

namespace {
/// A null device that counts the programs that it unloads.
struct forgetting_device : null_device {
  using null_device::null_device;
  std::vector<program_id> unloaded{};
  void unload(program& p) { unloaded.push_back(p.id()); }
};
} // namespace

TEST_CASE("remove: a program is unloaded from the device too, where that can") {
  forgetting_device device({limits_for(9, 0), sm_count{132}, 8});
  fifo order;
  silent_listener hears;
  aggregate_accountant account(device.limits().sm, device.limits().sms);
  const test::shared_dispatcher made(device, order, account, hears);
  test::any_dispatcher& d = *made;
  operation op;
  op.launch.grid = {16, 1, 1};
  op.launch.block = {128, 1, 1};
  op.launch.registers_per_thread = 32;
  op.expected = from_us(10);
  const auto serve = [&](program& p) {
    auto body = [&p](job_context& ctx) -> task {
      ctx.launch(p);
      co_return;
    };
    const model_id m = d.add_model("m", body, &p);
    job_request q;
    q.model = m;
    q.owner = &d.add_client();
    static_cast<void>(d.submit(q));
    while (!d.idle())
      if (!d.step()) device.wait(no_deadline);
    d.remove(m);
  };
  program first("first", std::vector<operation>(10, op));
  program second("second", std::vector<operation>(10, op));
  d.load(first);
  d.load(second);
  serve(first);
  d.unload(first);
  CHECK(device.unloaded == std::vector{first.id()});
  serve(second);
  program third("third", std::vector<operation>(10, op));
  d.load(third);
  serve(third);
  CHECK(d.statistics().finished == 3);
}
