// SPDX-License-Identifier: Apache-2.0
// Parts of the dispatcher alone: without a device, a listener or the parts below them.

#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/detail/class_load.hpp>
#include <gsched/dispatch/detail/job_table.hpp>
#include <gsched/dispatch/detail/policy_queue.hpp>
#include <gsched/dispatch/detail/registry.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

using namespace gsched;
using namespace std::chrono_literals;

namespace {

using fair_classes = gsched::priority<edf, deficit_over<srpt>>;

/// Jobs like a dispatcher's, of clients that it does not know.
template <policy P>
struct jobs_of {
  jobs_of() {
    for (std::uint32_t i = 0; i < 3; ++i) clients[i].id = client_id{i};
  }
  policy_job<P>& make(std::size_t of, duration remaining, service_class c) {
    policy_job<P>& a = table.take(job_id{next++});
    a.owner = &clients[of];
    a.remaining = a.total = remaining;
    a.head = std::min(remaining, duration{100us});
    a.service = c;
    return a;
  }
  client clients[3]{};
  std::uint64_t next = 0;
  struct records : job_table<policy_job<P>> {
    records() : job_table<policy_job<P>>(8, 64) {}
    policy_job<P>& take(job_id id) {
      return static_cast<policy_job<P>&>(job_table<policy_job<P>>::take(id));
    }
  } table;
};

device_limits small_gpu() {
  device_limits l;
  l.sm = limits_for(9, 0);
  l.sms = sm_count{4};
  l.lanes = 8;
  return l;
}

task no_work(job_context&) { co_return; }

program one_kernel(std::string name) {
  operation op;
  op.launch = {.grid = {8}, .block = {128}, .registers_per_thread = 32};
  op.expected = 10us;
  return {std::move(name), std::vector(3, op)};
}

} // namespace

TEST_CASE("policy_queue: a job's state is as new at each begin, and is found again") {
  fair_classes p;
  jobs_of<fair_classes> jobs;
  {
    policy_queue<fair_classes> queue(p);
    for (const client& c : jobs.clients) queue.add_client(c);
    auto& urgent = jobs.make(0, 300us, service_class::real_time);
    auto& big = jobs.make(1, 2ms, service_class::best_effort);
    auto& small = jobs.make(2, 1ms, service_class::best_effort);
    for (active_job* a : {static_cast<active_job*>(&urgent), static_cast<active_job*>(&big),
                          static_cast<active_job*>(&small)}) {
      queue.begin(*a);
      CHECK_FALSE(a->in_policy);
      queue.enqueue(*a, {});
      CHECK(a->in_policy);
    }
    CHECK(queue.size() == 3);
    CHECK(queue.size(service_class::best_effort) == 2);
    CHECK(&queue.pick({}) == &urgent);
    CHECK_FALSE(urgent.in_policy);
    CHECK(&queue.pick(service_class::best_effort, {}) == &small);
    queue.erase(big);
    queue.erase(big); // no effect
    CHECK(queue.size() == 0);
    urgent.deadline = time_point{10us}; // another job in the same record
    queue.begin(urgent);
    CHECK_FALSE(queue.admits(urgent, time_point{}));
    for (active_job* a : {static_cast<active_job*>(&urgent), static_cast<active_job*>(&big),
                          static_cast<active_job*>(&small)})
      jobs.table.remove(*a);
  } // the accounts of its clients are destroyed, and the policy has forgotten them
  CHECK(p.size() == 0);
}

TEST_CASE("class_load: counts jobs that can run, and the real-time work that is left") {
  preemption_options how;
  how.real_time_lanes = 1;
  class_load load(how, sm_count{132});
  jobs_of<srpt> jobs;
  auto& urgent = jobs.make(0, 400us, service_class::real_time);
  auto& other = jobs.make(1, 5ms, service_class::best_effort);
  load.count(urgent);
  load.count(urgent); // once
  load.count(other);
  CHECK(load.active(service_class::real_time) == 1);
  CHECK(load.active(service_class::best_effort) == 1);
  CHECK(load.real_time_left() == 400us);
  CHECK(load.some_best_effort_idle());
  load.flight_began(other);
  load.flight_began(other);
  CHECK_FALSE(load.some_best_effort_idle());
  load.flight_ended(other);
  CHECK_FALSE(load.some_best_effort_idle());
  load.flight_ended(other);
  CHECK(load.some_best_effort_idle());

  load.real_time_ended(urgent, 150us, duration{200us});
  CHECK(load.real_time_left() == 250us);
  CHECK(urgent.ended_took == 200us);
  load.real_time_ended(urgent, 1ms, {}); // more than expected
  CHECK(load.real_time_left() == 0us);
  load.ended(urgent, job_state::finished, time_point{1ms});
  load.ended(other, job_state::cancelled, time_point{1ms});
  CHECK(load.active(service_class::real_time) == 0);
  CHECK(load.active(service_class::best_effort) == 0);
  CHECK(load.most_best_effort() == run_to_completion);
  load.set_most_best_effort(50us);
  CHECK(load.most_best_effort() == 50us);
  jobs.table.remove(urgent);
  jobs.table.remove(other);
}

TEST_CASE("registry: what is removed is gone, and what is in use stays") {
  registry r(small_gpu());
  program p = one_kernel("p");
  CHECK_FALSE(r.has_program(program_id{0}));
  p.set_id(program_id{0});
  r.add_program(p, r.footprint_of(p));
  CHECK(r.has_program(program_id{0}));
  const program* const expected[]{&p};
  const model_id m = r.add_model("m", no_work, expected, 2);
  const model_id other = r.add_model("other", no_work, {}, 1);
  CHECK(r.has(m));
  CHECK(r[m].name == "m");
  r.exclude(m, other, {});
  CHECK(r[m].excluded.size() == 1);
  r[m].jobs = 1;
  CHECK_THROWS_WITH_AS(r.remove_model(m), "m: 1 active jobs, expected none of a model to remove",
                       error);
  r[m].jobs = 0;
  r.remove_model(m);
  CHECK_FALSE(r.has(m));
  CHECK(r[other].excluded.empty());
  CHECK_THROWS_AS(r.remove_model(m), error);
  CHECK_THROWS_AS(r.exclude(m, other, {}), error);
  r.remove_program(program_id{0});
  CHECK_THROWS_AS(static_cast<void>(r.add_model("late", no_work, expected, 1)), error);

  client& c = r.add_client(2);
  job_request q{.model = other, .owner = &c};
  r.check(q);
  client stranger;
  q.owner = &stranger;
  CHECK_THROWS_AS(r.check(q), error);
  CHECK_THROWS_AS(static_cast<void>(r.add_client(0)), error);
}

TEST_CASE("registry: a segment asks for what its kernels ask for") {
  registry r(small_gpu());
  program p = one_kernel("p");
  p.set_id(program_id{0});
  r.add_program(p, r.footprint_of(p));
  segment of_program;
  of_program.program = program_id{0};
  of_program.first = 1;
  of_program.operations = p.range(1, 3);
  segment loose = of_program;
  loose.program = no_program;
  CHECK(r.asks(of_program).blocks == 16);
  CHECK(r.asks(loose).blocks == 16);
  CHECK(r.asks(loose).time == 20us);
  CHECK(r.asks(of_program).fill == doctest::Approx(r.asks(loose).fill));
  CHECK(r.demand(program_id{0}, 1, of_program.operations, 0).blocks == 8);
  CHECK(r.demand(no_program, 0, loose.operations, 5).blocks == 0);
}
