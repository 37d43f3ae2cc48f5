// SPDX-License-Identifier: Apache-2.0
//
// What a user of the headers gets by default is what the programs run with by default.
#include "realtime/configuration.hpp"
#include "realtime/options.hpp"
#include "serve_mix/configuration.hpp"
#include "serve_mix/options.hpp"
#include "settings.hpp" // of the C library

#include <gsched/dispatch/options.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/round_robin.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <array>
#include <optional>

using namespace gsched;

TEST_CASE("defaults: serve_mix schedules as the library does") {
  const std::array<const char*, 1> words{"serve_mix"};
  const std::optional<serve_mix::options> o =
      serve_mix::parse_options(static_cast<int>(words.size()), words.data());
  REQUIRE(o.has_value());
  const common::configuration m = serve_mix::configuration_of("srpt+deficit", *o);
  const dispatch_options d;
  CHECK(m.dispatch.quantum == d.quantum);
  CHECK(m.dispatch.most_quantum == d.most_quantum);
  CHECK(m.dispatch.low_mark == d.low_mark);
  CHECK(m.dispatch.high_mark == d.high_mark);
  CHECK(m.dispatch.lanes == d.lanes);
  CHECK(m.dispatch.spare_lanes == d.spare_lanes);
  CHECK(m.dispatch.segments_per_job == d.segments_per_job);
  CHECK(m.dispatch.how == d.how);
  CHECK(m.dispatch.use == d.use);
  CHECK(m.dispatch.evict_on_preempt == d.evict_on_preempt);
  CHECK(m.dispatch.instrumented == d.instrumented);
  CHECK(m.dispatch.max_jobs == d.max_jobs);
  CHECK(m.dispatch.max_segments == d.max_segments);
  const accountant_options a;
  CHECK(m.account.max_outstanding == a.max_outstanding);
  CHECK(m.account.overshoot_blocks == a.overshoot_blocks);
  CHECK(m.account.overshoot_fill == a.overshoot_fill);
  CHECK(m.account.overshoot_time == a.overshoot_time);
  CHECK(o->parameters.threshold == deficit_over<srpt>::default_threshold);
  CHECK(o->parameters.slice == round_robin::default_slice);
  CHECK(a.max_outstanding == d.max_segments); // neither limits the other
}

TEST_CASE("defaults: a quantum changes no mark") {
  const std::array<const char*, 3> words{"serve_mix", "--quantum", "10000"};
  const auto o = serve_mix::parse_options(static_cast<int>(words.size()), words.data());
  REQUIRE(o.has_value());
  const common::configuration m = serve_mix::configuration_of("srpt", *o);
  CHECK(m.dispatch.quantum == from_us(10000));
  CHECK(m.dispatch.low_mark == dispatch_options{}.low_mark);
  CHECK(m.dispatch.high_mark == dispatch_options{}.high_mark);
}

TEST_CASE("defaults: realtime and the C library keep classes apart as the library does") {
  const std::array<const char*, 1> words{"realtime"};
  const auto o = realtime::parse_options(static_cast<int>(words.size()), words.data());
  REQUIRE(o.has_value());
  const common::configuration m = realtime::configuration_of(realtime::mode::preempt, *o);
  const abi::settings c = abi::settings_of(abi::default_options());
  const dispatch_options d;
  CHECK(m.account.overshoot_fill == accountant_options{}.overshoot_fill);
  CHECK(c.account.overshoot_fill == accountant_options{}.overshoot_fill);
  for (const dispatch_options& how : {m.dispatch, c.dispatch}) {
    CHECK(how.segments_per_job == d.segments_per_job);
    CHECK(how.segment_limit == d.segment_limit);
    CHECK(how.limit_factor == d.limit_factor);
    const preemption_options& p = how.preemption;
    CHECK(p.yields == d.preemption.yields);
    CHECK(p.floor == d.preemption.floor);
    CHECK(p.tolerance == d.preemption.tolerance);
    CHECK(p.reserve.empty());
    CHECK(p.long_operation == d.preemption.long_operation);
    CHECK(p.reserve_slow_down == d.preemption.reserve_slow_down);
    CHECK(p.reserve_tail == d.preemption.reserve_tail);
    CHECK(p.reserve_share == d.preemption.reserve_share);
    CHECK(p.adaptive == d.preemption.adaptive);
  }
  CHECK(c.dispatch.quantum == d.quantum);
  CHECK(c.dispatch.most_quantum == d.most_quantum);
  CHECK(c.dispatch.low_mark == d.low_mark);
  CHECK(c.dispatch.high_mark == d.high_mark);
  CHECK(c.dispatch.lanes == d.lanes);
  CHECK(c.dispatch.spare_lanes == d.spare_lanes);
}
