// SPDX-License-Identifier: Apache-2.0
// A policy that is chosen at run time decides as the policy itself.
#include "policy/on_jobs.hpp"
#include "policy/workload.hpp"

#include <gsched/policy/chosen_policy.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/policy/start_policy.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

using namespace gsched;
using namespace gsched::test;
using namespace std::chrono_literals;

namespace {

const policy_parameters often_reached{.threshold = duration{600}, .slice = duration{300}};

/// The calls of a dispatcher for random jobs, to a policy and to the chosen one: jobs enter, wait,
/// are picked, submitted, served or taken back, cancelled, and end.
template <policy P>
void compare(std::uint64_t seed) {
  CAPTURE(P::name);
  CAPTURE(seed);
  enum class place { outside, waiting, on_device };
  std::mt19937_64 random(seed);
  workload w(40, true, 5);
  for (std::size_t c = 0; c < w.clients(); ++c) w.owner(c).weight = 1 + static_cast<double>(c);
  const auto make = [] { return make_policy<P>(often_reached); };
  const auto choose = [] { return make_policy(P::name, often_reached); };
  on_jobs<P> p(w, typename on_jobs<P>::template made<decltype(make)>{make});
  on_jobs<named_policy> q(w,
                          typename on_jobs<named_policy>::template made<decltype(choose)>{choose});
  CHECK(q.policy().chosen_name() == P::name);
  std::vector<place> at(w.size(), place::outside);
  time_point now{};
  const auto left = [&](job& j, bool finished) {
    if constexpr (follows_work<P>) p.left(j, finished, now);
    q.left(j, finished, now);
    at[index(j.id)] = place::outside;
  };
  const auto enqueue = [&](job& j) {
    p.enqueue(j, now);
    q.enqueue(j, now);
    at[index(j.id)] = place::waiting;
  };
  for (int step = 0; step < 4000; ++step) {
    now += duration{static_cast<std::int64_t>(random() % 200)};
    job& j = w[random() % w.size()];
    REQUIRE(p.slice(j) == q.slice(j));
    switch (at[index(j.id)]) {
    case place::outside: {
      draw_facts(j, random, now);
      REQUIRE(p.wants_preempt(j, now) == q.wants_preempt(j, now));
      bool admitted = true;
      if constexpr (admitting_policy<P>) admitted = p.admits(j, now);
      REQUIRE(q.admits(j, now) == admitted);
      if (!admitted) break;
      if constexpr (follows_work<P>) p.entered(j, now);
      q.entered(j, now);
      enqueue(j);
      break;
    }
    case place::waiting:
      if (random() % 4 == 0) {
        p.erase(j);
        q.erase(j);
        left(j, false);
      } else {
        job* const picked = p.try_pick(now);
        REQUIRE(q.try_pick(now) == picked);
        REQUIRE(picked != nullptr);
        if constexpr (follows_work<P>) p.submitted(*picked, picked->head, now);
        q.submitted(*picked, picked->head, now);
        at[index(picked->id)] = place::on_device;
      }
      break;
    case place::on_device: {
      const bool done = random() % 8 != 0;
      if constexpr (follows_work<P>) p.landed(j, j.head, done, now);
      q.landed(j, j.head, done, now);
      if (done) j.remaining -= std::min(j.remaining, j.head);
      if (random() % 3 == 0)
        left(j, done);
      else
        enqueue(j);
      break;
    }
    }
    REQUIRE(p.size() == q.size());
  }
  while (job* const picked = p.try_pick(now)) REQUIRE(q.try_pick(now) == picked);
  REQUIRE(q.try_pick(now) == nullptr);
  for (std::size_t i = 0; i < w.size(); ++i)
    if (at[i] != place::outside) left(w[i], false);
  for (std::size_t c = 0; c < w.clients(); ++c) {
    if constexpr (forgets_clients<P>) p.forget(w.owner(c));
    q.forget(w.owner(c)); // destroys the state: a hook that is still linked asserts
  }
}

static_assert(follows_work<named_policy> && forgets_clients<named_policy>);
static_assert(!serves_real_time_first<named_policy>);
static_assert(!admitting_policy<chosen_policy<fifo, srpt>>);
static_assert(!forgets_clients<chosen_policy<fifo, edf>>);

} // namespace

TEST_CASE("chosen_policy: decides as the policy that is chosen, also jobs on the device") {
  []<policy... Ps>(policy_list<Ps...>) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) (compare<Ps>(seed), ...);
  }(selectable_policies{});
}

TEST_CASE("chosen_policy: the states of jobs and clients serve policies of several kinds in turn") {
  workload w(12, true, 3);
  std::vector<named_policy::per_client> clients(w.clients());
  std::vector<named_policy::per_job> jobs(w.size());
  for (std::size_t c = 0; c < w.clients(); ++c) clients[c].bind(w.owner(c));
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i].deadline = time_point{1ms};
    jobs[i].bind(w[i], clients[index(w[i].owner->id)]);
  }
  for (int round = 0; round < 2; ++round)
    for (const std::string_view name : selectable_policies::names) {
      CAPTURE(name);
      named_policy order = make_policy(name);
      for (auto& j : jobs) order.enqueue(j, time_point{});
      order.erase(jobs[5]);
      for (int i = 0; i < 4; ++i) REQUIRE(order.try_pick(time_point{}) != nullptr);
      CHECK(order.size() == w.size() - 5);
      CHECK(order.slice(jobs[0]) ==
            (name == "rr" ? round_robin::default_slice : run_to_completion));
    }
}

TEST_CASE("chosen_policy: jobs start in the order of the chosen policy, with its options") {
  const auto started = [](std::string_view name) {
    return start_policy<named_policy>::like(
        make_policy(name, {.threshold = 7us, .slice = 11us, .factor = 2.5}));
  };
  for (const std::string_view name : selectable_policies::names)
    CHECK(started(name).chosen_name() == (name == edf::name ? deadline_order::name : name));
  started("srpt+deficit").visit([]<class P>(auto, const P& p) {
    if constexpr (requires { p.threshold(); }) CHECK(p.threshold() == 7us);
  });
  started("boost").visit([]<class P>(auto, const P& p) {
    if constexpr (requires { p.factor(); }) CHECK(p.factor() == 2.5);
  });
  workload w(1, false);
  const auto turns = [&] { return started("rr"); };
  using starts = start_policy<named_policy>::type;
  on_jobs<starts> p(w, on_jobs<starts>::made<decltype(turns)>{turns});
  CHECK(p.slice(w[0]) == 11us);
}

TEST_CASE("chosen_policy: holds the first policy by default, or the one that it is made of") {
  using either = chosen_policy<fifo, round_robin>;
  CHECK(either().chosen_name() == "fifo");
  CHECK(either(round_robin(5us)).chosen_name() == "rr");
  using twins = chosen_policy<round_robin, round_robin>; // told apart by their numbers
  static_assert(!std::constructible_from<twins, round_robin>);
  const twins second(std::in_place_index<1>, round_robin(5us));
  CHECK(second.visit(
            []<std::size_t I>(std::in_place_index_t<I>, const round_robin&) { return I; }) == 1);
}
