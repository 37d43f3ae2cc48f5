// SPDX-License-Identifier: Apache-2.0
//
// Jobs that wait for an instance of their model start in the policy's order.
#include "dispatch/rig.hpp"
#include "dispatch/served_mix.hpp"

#include <gsched/policy/deficit.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/gamma_boost.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/policy/round_robin.hpp>
#include <gsched/policy/srpt.hpp>

#include <sanitized.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>

using namespace gsched;
using namespace gsched::test;

namespace {

/// Shares of the finished jobs of three tenants that share one model, saturated; measured after a
/// fifth of the time, because deficits build up to the threshold first.
template <policy P>
std::array<double, 3> shares(std::uint32_t instances) {
  const served_mix mix({"resnet18_b1"});
  served_mix::settings how;
  how.weights = {1, 2, 4};
  how.instances = instances;
  std::vector<planned> requests;
  for (int i = 0; i < 12000; ++i)
    for (std::uint32_t c = 0; c < 3; ++c) requests.push_back({time_point{}, 0, c});
  const duration length = mix.alone(0) * 6000;
  P order;
  const auto ends = mix.serve(order, how, requests, time_point{length});
  std::array<double, 3> got{};
  double all = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].how != job_state::finished || ends[i].latency < length / 5) continue;
    ++got[requests[i].client];
    ++all;
  }
  REQUIRE(all > 1200);
  REQUIRE(got[2] < 12000); // saturated to the end
  for (double& g : got) g /= all;
  return got;
}

template <policy P>
void check_shares() {
  for (const std::uint32_t instances : {1u, 4u}) {
    CAPTURE(instances);
    const auto got = shares<P>(instances);
    for (std::size_t c = 0; c < 3; ++c) {
      CAPTURE(c);
      const double due = std::array{1.0, 2.0, 4.0}[c] / 7;
      CHECK(std::abs(got[c] / due - 1) < 0.03);
    }
  }
}

} // namespace

TEST_CASE("start_order: tenants that share one model get shares by weight, within 3%") {
  GSCHED_TOO_LONG_SANITIZED();
  SUBCASE("deficit") { check_shares<deficit>(); }
  SUBCASE("srpt+deficit") { check_shares<deficit_over<srpt>>(); }
  SUBCASE("priority<edf,srpt+deficit>") {
    check_shares<gsched::priority<edf, deficit_over<srpt>>>();
  }
}

TEST_CASE(
    "start_order: each policy starts every job once, cancelled ones too, and keeps its client") {
  const auto with = [](auto tag) {
    using P = typename decltype(tag)::type;
    rig<P> r;
    program& p = r.make_program("p", 10, from_us(20));
    auto body = [&p](job_context& ctx) -> task {
      ctx.launch(p);
      co_return;
    };
    const model_id m = r.dispatch.add_model("p", body, &p, 2u);
    std::vector<client*> clients;
    for (int i = 0; i < 3; ++i) clients.push_back(&r.dispatch.add_client(1 + i));
    std::vector<job_id> ids;
    for (int i = 0; i < 90; ++i) {
      job_request q = r.request(m, *clients[static_cast<std::size_t>(i % 3)]);
      if (i % 4 == 0) q.service = service_class::real_time;
      ids.push_back(r.dispatch.submit(q));
      if (i % 5 == 4) CHECK(r.dispatch.cancel(ids[static_cast<std::size_t>(i - 1)]));
    }
    r.run();
    CHECK(r.dispatch.statistics().finished == 72);
    CHECK(r.dispatch.statistics().cancelled == 18);
    CHECK(r.hears.ends.size() == 90);
  };
  with(std::type_identity<fifo>{});
  with(std::type_identity<round_robin>{});
  with(std::type_identity<srpt>{});
  with(std::type_identity<edf>{});
  with(std::type_identity<deficit>{});
  with(std::type_identity<deficit_over<srpt>>{});
  with(std::type_identity<gamma_boost>{});
  with(std::type_identity<gsched::priority<edf, gamma_boost>>{});
}
