// SPDX-License-Identifier: Apache-2.0
//
// What a user of the headers gets by default is what the programs run with by default.
#include "serve_mix/manner.hpp"
#include "serve_mix/options.hpp"

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
  const parts::manner m = serve_mix::manner_of("srpt+deficit", *o);
  const dispatch_options d;
  CHECK(m.dispatch.quantum == d.quantum);
  CHECK(m.dispatch.most_quantum == d.most_quantum);
  CHECK(m.dispatch.low_mark == d.low_mark);
  CHECK(m.dispatch.high_mark == d.high_mark);
  CHECK(m.dispatch.lanes == d.lanes);
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
  CHECK(o->threshold == deficit_over<srpt>::default_threshold);
  CHECK(o->slice == round_robin::default_slice);
  CHECK(a.max_outstanding == d.max_segments); // neither limits the other
}

TEST_CASE("defaults: a quantum changes no mark") {
  const std::array<const char*, 3> words{"serve_mix", "--quantum", "10000"};
  const auto o = serve_mix::parse_options(static_cast<int>(words.size()), words.data());
  REQUIRE(o.has_value());
  const parts::manner m = serve_mix::manner_of("srpt", *o);
  CHECK(m.dispatch.quantum == from_us(10000));
  CHECK(m.dispatch.low_mark == dispatch_options{}.low_mark);
  CHECK(m.dispatch.high_mark == dispatch_options{}.high_mark);
}
