// SPDX-License-Identifier: Apache-2.0
#include "partition/every_plan.hpp"
#include "partition/random_table.hpp"
#include "sanitized.hpp"

#include <gsched/partition/detail/search/slowed_bound.hpp>
#include <gsched/partition/exact.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace gsched::testing {

namespace {

/// Batches take random parts of a GPU, and each use of the others slows a batch in another way.
struct random_interference {
  const latency_table* table = nullptr;
  std::vector<std::array<double, 3>> each{}; ///< by model: what a request takes, times microseconds
  std::vector<double> pressures{};           ///< by model
  std::array<double, 4> weights{};

  random_interference(const latency_table& t, std::mt19937_64& random) : table(&t) {
    const auto any = [&](double most) {
      return static_cast<double>(random() % 1000) / 1000 * most;
    };
    for (std::size_t m = 0; m < t.size(); ++m) {
      each.push_back({any(8), any(8), any(2)});
      pressures.push_back(0.5 + any(1));
    }
    weights = {any(2), any(1.5), any(0.5), any(0.5)};
  }

  [[nodiscard]] mean_use use(std::size_t model, std::uint32_t batch, sm_count sms) const {
    const std::uint32_t of = std::min(batch, table->batches(model).back()); // planners try more
    const double us = to_us(table->latency(model, of, std::max(sms, table->sizes(model).front())));
    mean_use u;
    u.l2 = each[model][0] * of / us;
    u.dram = each[model][1] * (1 + of) / us;
    u.starts = each[model][2] / us;
    u.factors.pressure = pressures[model];
    return u;
  }
  [[nodiscard]] double slowdown(const mean_use& own, const mean_use& others) const noexcept {
    return 1 + weights[0] * own.l2 * others.l2 + weights[1] * others.dram * others.dram +
           weights[2] * others.starts + weights[3] * std::max(0.0, own.dram + others.dram - 1);
  }
  [[nodiscard]] double operator()(std::span<const gpulet> all, std::size_t which,
                                  std::size_t model) const {
    if (all.size() < 2) return 1;
    std::uint32_t batch = 1;
    for (const portion& p : all[which].portions)
      if (p.model == model) batch = p.batch;
    mean_use others;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == which) continue;
      mean_use most;
      for (const portion& p : all[i].portions) {
        const mean_use u = use(p.model, p.batch, all[i].sms);
        const double by = u.factors.pressure;
        most.l2 = std::max(most.l2, by * u.l2);
        most.dram = std::max(most.dram, by * u.dram);
        most.starts = std::max(most.starts, by * u.starts);
      }
      others.l2 += most.l2;
      others.dram += most.dram;
      others.starts += most.starts;
    }
    return slowdown(use(model, batch, all[which].sms), others);
  }
};
static_assert(summed_interference<random_interference>);

struct slowed_question {
  latency_table table;
  std::vector<gpu_shape> shapes{};
  std::vector<model_demand> demands{};
};

/// One or two GPUs of 2 to 4 groups of 8 SMs, some with a remainder.
slowed_question draw_slowed(std::mt19937_64& random, std::size_t models) {
  slowed_question q{random_table(random, models, {8, 16, 24, 32}, 2)};
  for (std::uint64_t g = 1 + random() % 2; g > 0; --g)
    q.shapes.push_back(
        {sm_count{static_cast<std::uint32_t>(16 + random() % 13)}, sm_count{8}, random() % 2 == 0});
  for (std::size_t m = 0; m < models; ++m)
    q.demands.push_back(
        {m, 1 + static_cast<double>(random() % 1000),
         q.table.latency(m, 1, sm_count{24}) * static_cast<duration::rep>(2 + random() % 8)});
  return q;
}

std::vector<model_demand> times_all(std::vector<model_demand> demands, double scale) {
  for (model_demand& d : demands) d.rate *= scale;
  return demands;
}

} // namespace

TEST_CASE("what is proven infeasible beside neighbours, no enumerated plan serves") {
  std::mt19937_64 random(61);
  constexpr int cases = sanitized ? 150 : 1500;
  int served = 0, proven = 0, far = 0, slowed = 0;
  for (int i = 0; i < cases; ++i) {
    CAPTURE(i);
    const slowed_question q = draw_slowed(random, 1 + random() % 3);
    const random_interference beside(q.table, random);
    const auto places = static_cast<std::uint32_t>(random() % 3);
    CAPTURE(places);
    const double most =
        every_plan(q.table, q.demands, q.shapes, places, interference_function(beside)).max_scale();
    const auto is_proven = [&](double part) {
      return detail::is_proven_infeasible(q.table, times_all(q.demands, most * part), q.shapes,
                                          beside, places);
    };
    if (most == 0) continue;
    ++served;
    slowed += every_plan(q.table, q.demands, q.shapes, places).max_scale() > most * 1.01;
    REQUIRE(!is_proven(0.5));
    REQUIRE(!is_proven(1 - 1e-6));
    REQUIRE((is_proven(1.0001) || q.demands.size() > 1 || q.shapes.size() > 1));
    proven += is_proven(1.1);
    far += is_proven(4);
  }
  MESSAGE("served, proven at 1.1 times, at 4, slowed: " << served << ", " << proven << ", " << far
                                                        << ", " << slowed);
  CHECK(served > cases / 2);
  CHECK(proven > served / 2);
  CHECK(far > served * 9 / 10); // a mixture may serve what no plan does
  CHECK(slowed > cases / 5);
}

TEST_CASE("columns worth more are found beside neighbours, and otherwise there are none") {
  std::mt19937_64 random(63);
  int decided = 0, tied = 0;
  constexpr int cases = sanitized ? 15 : 150;
  for (int i = 0; i < cases; ++i) {
    CAPTURE(i);
    const latency_table t = random_table(random, 3, {8, 16, 32, 60}, 4);
    const random_interference beside(t, random);
    const gpu_shape shape{sm_count{random() % 2 == 0 ? 60u : 56u}, sm_count{8}};
    std::vector<model_demand> demands;
    std::vector<double> needs, prices;
    for (std::size_t m = 0; m < 3; ++m) {
      needs.push_back(1000 + static_cast<double>(random() % 5000));
      prices.push_back(static_cast<double>(1 + random() % 100) / 100);
      demands.push_back(
          {m, needs[m],
           t.latency(m, 1, sm_count{56}) * static_cast<duration::rep>(3 + random() % 8)});
    }
    constexpr std::uint32_t places = 3;
    const detail::candidate_table choices(t, demands, std::span(&shape, 1), {}, places);
    // All cuts, with one batch of one model on each partition.
    double most = 0;
    std::vector<gpulet> here;
    std::vector<sm_count> sizes;
    const auto cut = [&](auto& self, std::size_t from) -> void {
      double worth = 0;
      for (std::size_t k = 0; k < here.size(); ++k) {
        const portion& p = here[k].portions[0];
        const double time_s =
            to_s(t.latency(p.model, p.batch, here[k].sms)) * beside(here, k, p.model);
        if (2 * time_s <= to_s(demands[p.model].slo))
          worth += prices[p.model] * p.batch / time_s / needs[p.model];
      }
      most = std::max(most, worth);
      for (std::size_t c = from; c < choices.candidates().size() && here.size() < places; ++c) {
        sizes.push_back(choices.candidates()[c].sms);
        for (std::size_t m = 0; m < 3 && shape.can_make(sizes); ++m)
          for (std::uint32_t b = 1; b <= 4; ++b) {
            here.push_back({0, sizes.back(), {}, {{m, 1, b}}});
            self(self, c);
            here.pop_back();
          }
        sizes.pop_back();
      }
    };
    cut(cut, 0);
    detail::slowed_columns search(t, choices, 0, needs, beside);
    std::vector<detail::priced_column> found;
    const feasibility above = search.find_worth_more(prices, most * (1 + 1e-7), found);
    REQUIRE(above != feasibility::feasible);
    decided += above == feasibility::infeasible;
    const feasibility below = search.find_worth_more(prices, most * (1 - 1e-5), found);
    REQUIRE(below == feasibility::feasible);
    for (const detail::priced_column& c : found) REQUIRE(c.worth <= most * (1 + 1e-7));
    tied += found.size() > 1;
  }
  MESSAGE("decided, more than one column: " << decided << ", " << tied);
  CHECK(decided > cases * 9 / 10);
}

TEST_CASE("with neighbours, the exact planner says infeasible where no enumerated plan is") {
  std::mt19937_64 random(62);
  constexpr int cases = sanitized ? 60 : 600;
  int infeasible = 0, by_neighbours = 0, open = 0;
  for (int i = 0; i < cases; ++i) {
    CAPTURE(i);
    const slowed_question q = draw_slowed(random, 1 + random() % 2);
    const random_interference beside(q.table, random);
    const double most =
        every_plan(q.table, q.demands, q.shapes, 0, interference_function(beside)).max_scale();
    if (most == 0) continue;
    for (const double part : {0.6, 0.95, 1.02, 1.3}) {
      CAPTURE(part);
      const std::vector<model_demand> asked = times_all(q.demands, most * part);
      const planning_result said = exact_planner{}.solve(q.table, asked, q.shapes, beside);
      REQUIRE((said.status != feasibility::feasible || part < 1));
      REQUIRE((said.status != feasibility::infeasible || part > 1));
      open += said.status == feasibility::unknown;
      infeasible += said.status == feasibility::infeasible;
      by_neighbours += said.status == feasibility::infeasible &&
                       exact_planner{}.plan(q.table, asked, q.shapes).has_value();
      if (!said.plan) continue;
      const auto faults = faults_of(*said.plan, asked, q.table, q.shapes, beside);
      REQUIRE_MESSAGE(faults.empty(), faults.front());
    }
  }
  MESSAGE("infeasible, of these for neighbours alone, open: " << infeasible << ", " << by_neighbours
                                                              << ", " << open);
  CHECK(infeasible > cases);
  CHECK(by_neighbours > cases / 6);
}

} // namespace gsched::testing
