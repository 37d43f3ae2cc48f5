// SPDX-License-Identifier: Apache-2.0
//
// The effect of options on latency, for a served mix on the simulated H200.
#include "dispatch/served_mix.hpp"

#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/srpt.hpp>

#include <sanitized.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace gsched;
using namespace gsched::test;

namespace {

const served_mix& two_models() {
  static const served_mix mix({"resnet18_b1", "inception_v3_b1"});
  return mix;
}

/// Poisson arrivals, two of the first model for each of the second; eight clients.
std::vector<planned> requests_at(double load, int n) {
  const served_mix& mix = two_models();
  const double mean = (2.0 * static_cast<double>(mix.alone(0).count()) +
                       static_cast<double>(mix.alone(1).count())) /
                      3;
  std::mt19937_64 random(5);
  std::vector<planned> all;
  double t = 0;
  for (int i = 0; i < n; ++i) {
    t -= std::log(1 - static_cast<double>(random() >> 11) * 0x1p-53) * mean / load;
    planned p;
    p.at = time_point{duration{static_cast<duration::rep>(t)}};
    p.model = random() % 3 == 0 ? 1 : 0;
    p.client = static_cast<std::uint32_t>(random() % 8);
    all.push_back(p);
  }
  return all;
}

template <policy P>
double mean_ms(const served_mix::settings& how, const std::vector<planned>& requests) {
  P order;
  served_mix::settings eight = how;
  eight.weights.assign(8, 1.0);
  double sum = 0;
  for (const outcome& o : two_models().serve(order, eight, requests)) {
    REQUIRE(o.how == job_state::finished);
    sum += to_us(o.latency) / 1e3;
  }
  return sum / static_cast<double>(requests.size());
}

} // namespace

TEST_CASE("served: more segments of a job in flight lower no capacity") {
  GSCHED_TOO_LONG_SANITIZED();
  const auto requests = requests_at(2.4, 2000);
  served_mix::settings how;
  how.dispatch.segments_per_job = 1;
  const double one = mean_ms<deficit_over<srpt>>(how, requests);
  for (const std::uint32_t n : {2u, 3u, 4u, 8u}) {
    CAPTURE(n);
    how.dispatch.segments_per_job = n;
    CHECK(mean_ms<deficit_over<srpt>>(how, requests) / one < 1.15);
  }
}

TEST_CASE("served: jobs that end in a synchronous call are announced as almost finished too") {
  const auto requests = requests_at(0.6, 400);
  served_mix::settings how;
  for (const bool waits : {false, true}) {
    CAPTURE(waits);
    how.waits_at_end = waits;
    static_cast<void>(mean_ms<srpt>(how, requests)); // all finish
    // After one job of their model has ended, bodies that wait are known to end there.
    CHECK(two_models().announced <= requests.size());
    CHECK(two_models().announced >= (waits ? requests.size() * 9 / 10 : requests.size()));
  }
}

TEST_CASE("served: a long quantum leaves the policy in force") {
  const auto requests = requests_at(0.8, 2000);
  served_mix::settings how;
  how.dispatch.lanes = 1;
  const double usual = mean_ms<srpt>(how, requests);
  how.dispatch.quantum = how.dispatch.most_quantum = from_us(10000);
  CHECK(mean_ms<srpt>(how, requests) / usual < 1);
  // Marks of that size queue several long segments, which the policy cannot reorder.
  how.dispatch.low_mark = how.dispatch.high_mark = how.dispatch.quantum;
  CHECK(mean_ms<srpt>(how, requests) / usual > 1.1);
}

TEST_CASE("served: on one lane whole requests take under fifo as long as with no scheduler") {
  const auto requests = requests_at(0.8, 2000);
  served_mix::settings how;
  how.dispatch.lanes = 1;
  how.dispatch.quantum = how.dispatch.most_quantum = run_to_completion;
  how.dispatch.low_mark = how.dispatch.high_mark = run_to_completion;
  const double fifo_ms = mean_ms<fifo>(how, requests);
  how.dispatch.segments_per_job = 1u << 20;
  how.account.overshoot_fill = 1e6;
  const double single_ms = mean_ms<fifo>(how, requests);
  CAPTURE(single_ms);
  CHECK(fifo_ms / single_ms < 1.02);
}
