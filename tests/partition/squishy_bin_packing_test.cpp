// SPDX-License-Identifier: Apache-2.0
#include "partition/every_plan.hpp"
#include "partition/random_table.hpp"

#include <gsched/partition/exact.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace gsched::testing {

TEST_CASE("sbp has a plan only where whole GPUs have one, and sbp_ideal exactly there") {
  std::mt19937_64 random(51);
  int sbp = 0, ideal = 0, served = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const std::size_t models = 1 + random() % 3;
    const latency_table t =
        random_table(random, models, {8, 16, 24}, static_cast<std::uint32_t>(2 + random() % 4));
    std::vector<gpu_shape> shapes, whole;
    for (std::uint64_t g = 1 + random() % 3; g > 0; --g) {
      shapes.push_back({sm_count{static_cast<std::uint32_t>(16 + random() % 2 * 8)}, sm_count{8}});
      whole.push_back({shapes.back().sms, shapes.back().sms});
    }
    std::vector<model_demand> demands;
    for (std::size_t m = 0; m < models; ++m)
      demands.push_back(
          {m, 1 + static_cast<double>(random() % 1000),
           t.latency(m, 1, sm_count{24}) * static_cast<duration::rep>(2 + random() % 8)});
    const double most = every_plan(t, demands, whole).max_scale();
    if (most == 0) continue;
    ++served;
    for (const double part : {0.4, 0.7, 0.9999, 1.0001}) {
      CAPTURE(part);
      std::vector<model_demand> scaled = demands;
      for (model_demand& d : scaled) d.rate *= most * part;
      const auto packed = squishy_bin_packing_planner{}.plan(t, scaled, shapes);
      const auto best = exact_whole_gpu_planner{}.plan(t, scaled, shapes);
      REQUIRE(best.has_value() == (part < 1));
      REQUIRE((!packed || part < 1));
      sbp += packed.has_value();
      ideal += best.has_value();
      for (const auto& plan : {packed, best}) {
        if (!plan) continue;
        const auto faults = faults_of(*plan, scaled, t, shapes);
        REQUIRE_MESSAGE(faults.empty(), faults.front());
        for (const gpulet& g : plan->gpulets) REQUIRE(g.sms == shapes[g.gpu].sms);
      }
    }
  }
  MESSAGE("of " << ideal << " questions with a plan sbp solves " << sbp);
  CHECK(served > 200);
  CHECK(sbp > 0.75 * ideal);
  CHECK(sbp < ideal);
}

} // namespace gsched::testing
