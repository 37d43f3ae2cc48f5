// SPDX-License-Identifier: Apache-2.0
//
// A dispatcher under a policy that is chosen by its name serves as under the policy itself.
#include "dispatch/served_mix.hpp"
#include "sanitized.hpp"

#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

using namespace gsched;
using namespace gsched::test;
using namespace std::chrono_literals;

namespace {

/// The outcomes of requests in bursts, of three clients with weights, with deadlines that not
/// all can be kept, for models with one instance each or with any number.
template <policy P, class Choose>
void compare(Choose choose) {
  const served_mix mix({"resnet18_b1", "inception_v3_b1"});
  std::mt19937_64 random(3);
  std::vector<planned> requests;
  time_point at{};
  for (int i = 0; i < (testing::sanitized ? 150 : 600); ++i) {
    if (random() % 8 == 0) at += 12ms;
    requests.push_back({at, random() % 3 == 0 ? 1u : 0u, static_cast<std::uint32_t>(random() % 3),
                        duration{1ms} + random() % 16 * duration{1ms}});
  }
  for (const std::uint32_t instances : {instance_pool::unlimited, 1u}) {
    CAPTURE(instances);
    served_mix::settings how;
    how.weights = {1, 2, 4};
    how.instances = instances;
    how.natively = true;
    P direct;
    const auto expected = mix.serve(direct, how, requests, time_point{1s});
    auto chosen = choose();
    const auto got = mix.serve(chosen, how, requests, time_point{1s});
    std::size_t differences = 0, finished = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      differences += got[i].how != expected[i].how || got[i].latency != expected[i].latency;
      finished += got[i].how == job_state::finished;
    }
    CHECK(differences == 0);
    CHECK(finished > requests.size() / 6);
  }
}

} // namespace

TEST_CASE("chosen_policy: a dispatcher serves as under the policy itself") {
  SUBCASE("edf: admission, and jobs followed to their end") {
    compare<edf>([] { return make_policy("edf"); });
  }
  SUBCASE("srpt+deficit: accounts of clients, also of those that wait for an instance") {
    compare<deficit_over<srpt>>([] { return make_policy("srpt+deficit"); });
  }
}
