// SPDX-License-Identifier: Apache-2.0
//
// Random jobs that are held, follow one another and exclude one another, and are cancelled, failed
// and released at random: each ends once, none starts too early, and no state remains.
#include "dispatch/rig.hpp"

#include <gsched/policy/names.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

using namespace gsched;

namespace {

struct storm_watch;

/// A job as requested, and its outcome.
struct drawn {
  std::uint64_t seed = 0;
  std::size_t model = 0;
  bool released = false; ///< or never held
  std::optional<std::size_t> after{};
  bool leader_active = false; ///< when it was submitted
  job_id id{};
  bool started = false;
  int ends = 0;
  job_state how = job_state::running;
};

struct storm_watch : silent_listener {
  std::deque<drawn> jobs;
  std::vector<std::vector<bool>> excludes;
  std::vector<int> running;
  int early = 0;
  int overlaps = 0;
  std::uint64_t failures = 0;

  void on_failure(const job&, std::exception_ptr why, time_point) noexcept {
    failures += why != nullptr;
  }
  void on_end(const job& j, void* user, time_point) noexcept {
    auto& d = *static_cast<drawn*>(user);
    ++d.ends;
    d.how = j.state;
  }
  void start(drawn& d) {
    d.started = true;
    early += !d.released;
    early += d.leader_active && jobs[*d.after].how != job_state::finished;
    for (std::size_t m = 0; m < running.size(); ++m)
      overlaps += excludes[d.model][m] && running[m] > 0;
    ++running[d.model];
  }
};

struct started_job {
  storm_watch& watch;
  std::size_t model;
  started_job(storm_watch& w, drawn& d) : watch(w), model(d.model) { w.start(d); }
  ~started_job() { --watch.running[model]; }
};

struct storm_body {
  storm_watch& watch;
  const program& p;
  const operation& op;
  task operator()(job_context& ctx) {
    auto& d = *static_cast<drawn*>(ctx.user);
    const started_job guard(watch, d);
    std::mt19937_64 random(d.seed);
    for (std::uint64_t n = random() % 4; n > 0; --n) {
      if (random() % 2)
        ctx.launch(p);
      else
        ctx.launch(op);
      if (random() % 2) co_await ctx.synchronize();
      if (random() % 60 == 0) throw std::runtime_error("drawn");
    }
    co_await ctx.synchronize(); // the guard covers in-flight work
  }
};

/// Serves random jobs, which `watch` follows, until all have ended.
void serve_random(test::any_dispatcher& d, storm_watch& watch, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  operation op;
  op.launch.grid = {64, 1, 1};
  op.launch.block = {128, 1, 1};
  op.launch.registers_per_thread = 32;
  op.expected = from_us(15);
  op.kernel = kernel_id{0};
  program p("p", std::vector<operation>(30, op));
  d.load(p);
  storm_body body{watch, p, op};
  constexpr std::size_t kinds = 4;
  watch.excludes.assign(kinds, std::vector<bool>(kinds));
  watch.running.assign(kinds, 0);
  std::vector<model_id> models;
  for (std::size_t m = 0; m < kinds; ++m)
    models.push_back(
        d.add_model("drawn", body, &p, static_cast<std::uint32_t>(random() % 4))); // 0: unlimited
  for (std::size_t a = 0; a < kinds; ++a)
    for (std::size_t b = a; b < kinds; ++b)
      if (random() % 3 == 0) {
        d.exclude(models[a], models[b]);
        watch.excludes[a][b] = watch.excludes[b][a] = true;
      }
  client* const clients[] = {&d.add_client(), &d.add_client(2.0)};
  std::vector<std::size_t> held;
  const auto check_counts = [&] {
    const dispatch_statistics& s = d.statistics();
    REQUIRE(s.submitted == s.active + s.ended());
  };
  for (int round = 0; round < 500; ++round) {
    if (random() % 2 == 0) {
      drawn& j = watch.jobs.emplace_back();
      j.seed = random();
      j.model = random() % kinds;
      job_request q;
      q.held = random() % 4 == 0;
      j.released = !q.held;
      if (watch.jobs.size() > 1 && random() % 2 == 0) {
        const std::size_t recent = std::min<std::size_t>(watch.jobs.size() - 1, 20);
        j.after = watch.jobs.size() - 2 - random() % recent;
        q.after = watch.jobs[*j.after].id;
        j.leader_active = watch.jobs[*j.after].ends == 0;
      }
      q.model = models[j.model];
      q.owner = clients[random() % 2];
      q.service = random() % 4 ? service_class::best_effort : service_class::real_time;
      q.arrival = d.now();
      if (random() % 4 == 0) q.deadline = d.now() + from_us(static_cast<double>(random() % 8000));
      q.user = &j;
      if (q.held) held.push_back(watch.jobs.size() - 1);
      j.id = d.submit(q);
    }
    if (!held.empty() && random() % 5 == 0) {
      drawn& j = watch.jobs[held[random() % held.size()]];
      j.released = true;
      static_cast<void>(d.release(j.id));
    }
    if (!watch.jobs.empty() && random() % 15 == 0)
      static_cast<void>(d.cancel(watch.jobs[random() % watch.jobs.size()].id));
    if (!watch.jobs.empty() && random() % 60 == 0)
      static_cast<void>(d.fail(watch.jobs[random() % watch.jobs.size()].id,
                               std::make_exception_ptr(std::runtime_error("asked for"))));
    if (!d.step()) d.wait(d.now() + from_us(static_cast<double>(random() % 200)));
    check_counts();
  }
  for (int rounds = 0; !d.idle(); ++rounds) {
    REQUIRE(rounds < 200000); // otherwise it hangs
    if (d.step()) continue;
    if (!d.nothing_in_flight()) {
      d.wait(no_deadline);
      continue;
    }
    REQUIRE(d.held() > 0);
    for (const std::size_t h : held) {
      watch.jobs[h].released = true;
      static_cast<void>(d.release(watch.jobs[h].id));
    }
    check_counts();
  }
  std::uint64_t kept_out = 0;
  for (const drawn& j : watch.jobs) {
    CHECK(j.ends == 1);
    if (j.leader_active && watch.jobs[*j.after].how != job_state::finished) {
      CHECK_FALSE(j.started);
      CHECK(j.how != job_state::finished);
      kept_out += j.how == job_state::cancelled;
    }
  }
  const dispatch_statistics& s = d.statistics();
  CHECK(s.submitted == watch.jobs.size());
  CHECK(s.ended() == watch.jobs.size());
  CHECK(s.finished > 20);
  CHECK(s.failed <= watch.failures);
  CHECK(watch.failures <= s.failed + kept_out + s.over_limit);
  CHECK(s.unknown_events == 0);
  CHECK(watch.early == 0);
  CHECK(watch.overlaps == 0);
  CHECK(d.held() == 0);
  for (const model_id m : models) d.remove(m);
  d.unload(p);
}

template <class P, class Device>
void dependency_storm(Device& device, dispatch_options o, std::uint64_t seed) {
  if (serves_real_time_first<P> && seed % 4 != 0) {
    o.preemption.real_time_lanes = 1 + static_cast<std::uint32_t>(seed % 2);
    o.preemption.floor = seed % 3 == 0 ? 0.1 : 0;
    o.preemption.floor_window = from_us(500);
  }
  accountant_options room;
  room.max_outstanding = 256;
  aggregate_accountant account(device.limits().sm, device.limits().sms, room);
  P order;
  storm_watch watch;
  const test::shared_dispatcher made(device, order, account, watch, o);
  serve_random(*made, watch, seed);
  CHECK(order.size() == 0);
  CHECK(account.outstanding() == 0);
}

dispatch_options drawn_dispatch(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  dispatch_options o;
  o.lanes = 1 + static_cast<std::uint32_t>(random() % 4);
  o.segments_per_job = 1 + static_cast<std::uint32_t>(random() % 3);
  o.quantum = from_us(static_cast<double>(5 + random() % 200));
  o.most_quantum = o.quantum * static_cast<int>(1 + random() % 4);
  o.evict_on_preempt = random() % 2 == 0;
  o.max_segments = 64;
  o.reserved_jobs = 1 + random() % 4; // so that it grows
  o.reserved_entries = 16;
  if (random() % 3 == 0) o.max_jobs = 20;
  return o;
}

using dependency_policies =
    std::tuple<fifo, srpt, edf, deficit_over<srpt>, gsched::priority<edf, deficit_over<srpt>>>;

} // namespace

TEST_CASE_TEMPLATE_DEFINE("storm: jobs that wait for others, on the simulated GPU", P,
                          waits_on_sim) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    CAPTURE(seed);
    sim::device device(sim::h200());
    dependency_storm<P>(device, drawn_dispatch(seed), seed);
  }
}
TEST_CASE_TEMPLATE_APPLY(waits_on_sim, dependency_policies);

TEST_CASE_TEMPLATE_DEFINE("storm: jobs that wait for others, on the null device", P,
                          waits_on_null) {
  for (std::uint64_t seed = 100; seed < 116; ++seed) {
    CAPTURE(seed);
    const dispatch_options o = drawn_dispatch(seed);
    null_device device({limits_for(9, 0), sm_count{132}, o.lanes + 3}, from_us(20));
    dependency_storm<P>(device, o, seed);
  }
}
TEST_CASE_TEMPLATE_APPLY(waits_on_null, dependency_policies);
