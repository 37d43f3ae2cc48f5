// SPDX-License-Identifier: Apache-2.0
#include <gsched/workload/app_demands.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace gsched;
using namespace std::chrono_literals;

namespace {

/// Model 0, then 1 and 2 in parallel, then 3 after 1.
app fork_and_on() { return {"fork", {}, {{0, 1, {}}, {1, 6, {0}}, {2, 1, {0}}, {3, 1, {1}}}}; }

const std::vector<duration> own{2ms, 3ms, 9ms, 5ms, 7ms};

latency_table table_of(std::size_t models) {
  std::vector<latency_row> rows;
  for (std::size_t m = 0; m < models; ++m)
    rows.push_back({"m" + std::to_string(m), 1, sm_count{8}, 1ms});
  return latency_table(rows);
}

/// The length of the longest path from a stage to a last stage.
duration longest(const app& a, const std::vector<duration>& each, std::size_t from) {
  duration most{};
  for (std::size_t s = from + 1; s < a.stages.size(); ++s)
    for (const std::size_t before : a.stages[s].after)
      if (before == from) most = std::max(most, longest(a, each, s));
  return each[from] + most;
}

} // namespace

TEST_CASE("stage SLOs add up to the app's SLO on the critical path, and to no more on any path") {
  app a = fork_and_on();
  CHECK(critical_path(a, own) == 11ms); // by model 2
  a.slo = critical_path(a, own);
  const std::vector<duration> each = stage_slos(a, own);
  CHECK(each[0] == 2ms);
  CHECK(each[2] == 9ms);
  CHECK(each[1] == duration{3'300'000}); // 2 + 3 + 5 have 11
  CHECK(each[3] == duration{5'500'000});
  a.slo = 22ms;
  CHECK(stage_slos(a, own)[2] == 18ms);
  a.slo = 1ms;
  CHECK(longest(a, stage_slos(a, own), 0) <= 1ms);
}

TEST_CASE("random apps: no path exceeds the SLO, and the longest nearly reaches it") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    app a{"a", duration{static_cast<duration::rep>(1'000'000 + random() % 90'000'000)}, {}};
    const std::size_t n = 1 + random() % 8;
    for (std::size_t s = 0; s < n; ++s) {
      a.stages.push_back({random() % own.size(), 1, {}});
      for (std::size_t before = 0; before < s; ++before)
        if (random() % 3 == 0) a.stages[s].after.push_back(before);
    }
    const std::vector<duration> each = stage_slos(a, own);
    duration most{};
    for (std::size_t s = 0; s < n; ++s) most = std::max(most, longest(a, each, s));
    CHECK(most <= a.slo);
    CHECK(most >= a.slo - 100us);
    std::vector<duration> by_model = model_slos(std::vector{a}, own);
    for (std::size_t s = 0; s < n; ++s) CHECK(by_model[a.stages[s].model] <= each[s]);
  }
}

TEST_CASE("demands of apps add up, with the shortest SLO of each model") {
  app fork = fork_and_on();
  fork.slo = 22ms;
  const std::vector<app> apps{fork, app_of_model("m2", 2, own[2]), app_of_model("m4", 4, 1ms)};
  const std::vector<model_demand> all = demands_of(apps, std::vector{10.0, 5.0, 2.0}, own);
  REQUIRE(all.size() == 5);
  const std::vector<double> rates{10, 60, 15, 10, 2};
  const std::vector<duration> slos{4ms, duration{6'600'000}, 9ms, 11ms, 1ms};
  for (std::size_t m = 0; m < all.size(); ++m) {
    CHECK(all[m].model == m);
    CHECK(all[m].rate == rates[m]);
    CHECK(all[m].slo == slos[m]);
  }
  CHECK(model_slos({}, own) == own);
}

TEST_CASE("an app whose SLO is too short is refused with the shortest that passes") {
  const latency_table t = table_of(5);
  app a = fork_and_on();
  for (const duration slo : {1ms, 5ms, 10ms}) {
    a.slo = slo;
    try {
      check(a, t, own);
      FAIL("not refused");
    } catch (const error& e) {
      CHECK(e.code() == errc::bad_option);
      CHECK(std::string(e.what()).find("expected at least 11000,") != std::string::npos);
      CHECK(std::string(e.what()).find("of which m0 has twice its fastest latency, 2000 us: a "
                                       "request waits for one batch and takes another") !=
            std::string::npos);
    }
  }
  a.slo = 11ms;
  CHECK_NOTHROW(check(a, t, own));
  a.slo = duration{5'500'000};
  CHECK_NOTHROW(check(a, t, own, served_by::whole_gpu));
}
