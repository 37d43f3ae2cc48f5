// SPDX-License-Identifier: Apache-2.0
// Policies by name: their descriptions, and how they are made from parameters.
#include "policy/on_jobs.hpp"
#include "policy/workload.hpp"

#include <gsched/policy/names.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <type_traits>
#include <utility>

using namespace gsched;
using namespace gsched::test;
using namespace std::chrono_literals;

namespace {

constexpr time_point at(duration t) { return time_point{t}; }

/// Whether a short, urgent job can be preferred to a long one that runs.
template <class P>
bool does_preempt() {
  workload w(2, false);
  on_jobs<P> p;
  job& running = w[0];
  job& next = w[1];
  running.total = running.remaining = 100ms;
  running.deadline = at(1s);
  next.arrival = at(1us);
  next.total = next.remaining = 10us;
  next.deadline = at(1ms);
  p.enqueue(running, at(0us));
  REQUIRE(p.try_pick(at(0us)) == &running);
  p.enqueue(next, at(1us));
  return p.wants_preempt(running, at(1us));
}

template <class P>
void check_description() {
  CAPTURE(P::name);
  const policy_description* const d = find_policy(P::name);
  REQUIRE(d != nullptr);
  CHECK(d->name == P::name);
  CHECK(!d->summary.empty());
  CHECK(does_preempt<P>() == d->preempts);
  CHECK(d->uses_threshold == requires { &P::set_threshold; });
  CHECK(d->uses_slice == std::is_same_v<P, round_robin>);
  CHECK(d->uses_factor == std::is_same_v<P, gamma_boost>);
}

/// What f(p) returns for the policy P with that name.
template <class P, class F>
auto chosen(std::string_view name, const policy_parameters& with, F f) {
  const named_policy order = make_policy(name, with);
  return order.visit([&]<class Q>(auto, const Q& p) {
    if constexpr (std::is_same_v<P, Q>) return f(p);
    FAIL("another policy is chosen");
    return decltype(f(std::declval<const P&>())){};
  });
}

} // namespace

TEST_CASE("names: each selectable policy is described as it behaves") {
  []<class... Ps>(policy_list<Ps...>) {
    CHECK(sizeof...(Ps) == policy_descriptions.size());
    (check_description<Ps>(), ...);
  }(selectable_policies{});
}

TEST_CASE("names: a description is found by a name, with a factor where there is one") {
  REQUIRE(find_policy("boost:0.5") != nullptr);
  CHECK(find_policy("boost:0.5")->name == "boost");
  REQUIRE(find_policy("direct") != nullptr);
  CHECK(find_policy("direct") == &unscheduled_descriptions[0]);
  for (const std::string_view unknown : {"", "FIFO", "fifo:1", "direct:1", "lottery", "srpt+"})
    CHECK(find_policy(unknown) == nullptr);
}

TEST_CASE("names: a policy is made with the parameters that it has") {
  const policy_parameters with{.threshold = 7us, .slice = 11us, .factor = 2.5};
  workload w(1, false);
  const auto make = [&] { return make_policy<round_robin>(with); };
  on_jobs<round_robin> turns(on_jobs<round_robin>::made<decltype(make)>{make});
  CHECK(turns.slice(w[0]) == 11us);
  CHECK(make_policy<deficit_over<srpt>>(with).threshold() == 7us);
  CHECK(make_policy<gamma_boost>(with).factor() == 2.5);
  CHECK(make_policy<fifo>(with).size() == 0);
  const auto threshold_of = [](const auto& p) { return p.threshold(); };
  CHECK(chosen<deficit_over<srpt>>("srpt+deficit", with, threshold_of) == 7us);
  const auto factor = [](const auto& p) { return p.factor(); };
  CHECK(chosen<gamma_boost>("boost", with, factor) == 2.5);
  CHECK(chosen<gamma_boost>("boost:3", with, factor) == 3);
  CHECK(parameters_of("boost:3", with).factor == 3);
  CHECK(parameters_of("boost", with).factor == 2.5);
  CHECK(parameters_of("srpt", with).slice == 11us);
  CHECK_THROWS_AS(static_cast<void>(parameters_of("boost:x")), error);
}
