// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"

#include <gsched/partition/detail/search/branch_and_bound_plan.hpp>
#include <gsched/partition/detail/search/branch_and_price.hpp>
#include <gsched/partition/detail/search/plan_finaliser.hpp>
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace gsched::testing {

using namespace detail;

namespace {

/// A neighbour adds a constant, and a part for each of its SMs that depends on its models.
struct by_neighbour {
  double operator()(std::span<const gpulet> all, std::size_t which, std::size_t) const {
    double slower = 1;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != which) {
        slower += 0.05;
        for (const portion& p : all[i].portions)
          slower += all[i].sms.count() * 0.004 * static_cast<double>(1 + p.model);
      }
    return slower;
  }
};

struct question {
  latency_table table;
  std::vector<model_demand> demands{};
  std::vector<gpu_shape> shapes{};
  std::vector<double> needs{};
};

/// Small enough to enumerate all splits: GPUs of three groups, with and without a remainder.
question ask(std::mt19937_64& random) {
  question q{random_table(random, 2, {8, 16, 24}, 4)};
  q.shapes.assign(1 + random() % 2, {sm_count{random() % 2 == 0 ? 24u : 28u}, sm_count{8}});
  for (std::size_t m = 0; m < 2; ++m) {
    const duration slo =
        q.table.latency(m, 1, sm_count{8}) * static_cast<duration::rep>(3 + random() % 6);
    q.demands.push_back({m, 1 + static_cast<double>(random() % 20000), slo});
    q.needs.push_back(q.demands[m].rate);
  }
  return q;
}

/// What any choice of candidates that fills a GPU serves, by enumeration.
void every_cut(const question& q, const candidate_table& choices, std::vector<column_entry>& chosen,
               std::uint32_t plain, bool last, std::size_t from,
               std::vector<std::vector<double>>& all) {
  const gpu_kind& k = choices.kinds()[0];
  if (plain == k.regular && last == k.has_remainder) {
    std::vector<gpulet> here;
    here.reserve(chosen.size());
    for (const column_entry& o : chosen)
      here.push_back({0, choices.candidates()[o.candidate].sms, {}, {{o.demand, 1, 1}}});
    all.emplace_back(q.demands.size(), 0.0);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const model_demand& d = q.demands[chosen[i].demand];
      const double factor = by_neighbour{}(here, i, d.model);
      all.back()[d.model] += capacity_of(q.table, d.model, here[i].sms, d.slo, factor).rate;
    }
  }
  for (std::size_t i = from; i < choices.candidates().size() * q.demands.size(); ++i) {
    const column_entry o{i / q.demands.size(), i % q.demands.size()};
    const candidate& p = choices.candidates()[o.candidate];
    if (plain + p.regular > k.regular || (last && p.remainder)) continue;
    chosen.push_back(o);
    every_cut(q, choices, chosen, plain + p.regular, last || p.remainder, i, all);
    chosen.pop_back();
  }
}

} // namespace

TEST_CASE(
    "a column pool has every split of a GPU, with the rates of its partitions under interference") {
  std::mt19937_64 random(81);
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    const question q = ask(random);
    const candidate_table choices(q.table, q.demands, q.shapes);
    const by_neighbour beside;
    const column_limits all_cuts{3, std::numeric_limits<double>::infinity(), 1};
    column_pool pool(q.table, choices, q.needs, beside, all_cuts);
    const std::vector<double> prices(2, 0.5);
    pool.grow(0, prices, 0);
    CHECK(!pool.grow(0, prices, 0)); // each once
    std::vector<std::vector<double>> every;
    std::vector<column_entry> none;
    every_cut(q, choices, none, 0, false, 0, every);
    // Columns that serve nothing are left out; the others are there, with the same rates.
    std::multiset<std::vector<double>> expected, found;
    const auto rounded = [&](std::vector<double> parts) {
      for (double& p : parts) p = std::round(std::min(1.0, p) * 1e6);
      return parts;
    };
    for (std::vector<double> rates : every) {
      for (std::size_t d = 0; d < 2; ++d) rates[d] /= q.needs[d];
      expected.insert(rounded(rates));
    }
    for (const gpu_column& c : pool.columns()) found.insert(rounded(c.parts));
    for (const std::vector<double>& f : found) REQUIRE(found.count(f) <= expected.count(f));
    for (const std::vector<double>& e : expected)
      REQUIRE(std::any_of(found.begin(), found.end(), [&](const std::vector<double>& f) {
        return f[0] >= e[0] - 1 && f[1] >= e[1] - 1;
      }));
  }
}

TEST_CASE("branch and price finds a column for each GPU wherever one exists") {
  std::mt19937_64 random(82);
  int plans = 0, hopeless = 0, between = 0, proven = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    question q = ask(random);
    const candidate_table whole(q.table, q.demands, q.shapes);
    std::vector<std::vector<double>> every;
    std::vector<column_entry> none;
    every_cut(q, whole, none, 0, false, 0, every);
    double most = 0; // times these rates, by trying all cuts of all GPUs
    for (const auto& a : every)
      for (const auto& b : every) {
        const bool two = q.shapes.size() == 2;
        most = std::max(
            most, std::min((a[0] + two * b[0]) / q.needs[0], (a[1] + two * b[1]) / q.needs[1]));
        if (!two) break;
      }
    if (most == 0) continue;
    for (const double part : {0.7, 0.9999, 1.0001, 1.5}) {
      CAPTURE(part);
      std::vector<model_demand> scaled = q.demands;
      std::vector<double> needs;
      needs.reserve(scaled.size());
      for (model_demand& d : scaled) needs.push_back(d.rate *= most * part);
      const candidate_table choices(q.table, scaled, q.shapes);
      const by_neighbour beside;
      branch_and_price search(q.table, choices, needs, beside, {{3, 1, 1}});
      std::vector<assignment> found;
      const bool is_there = search.run([&](std::span<const assignment> candidates) {
        found.assign(candidates.begin(), candidates.end());
        return true;
      });
      REQUIRE(is_there == (part < 1));
      REQUIRE((search.scale() >= 1 || !is_there));
      plans += is_there;
      hopeless += search.scale() < 1;
      between += !is_there && search.scale() >= 1;
      const search_budget once{20'000, 1, 3}; // what is proven is proven in the first round
      const auto known = plan_by_branch_and_bound(q.table, scaled, q.shapes, beside, once).status;
      REQUIRE((known != feasibility::infeasible || !is_there));
      proven += known == feasibility::infeasible &&
                plan_by_branch_and_bound(q.table, scaled, q.shapes, no_interference{}, once).plan;
      // All partitions fit their GPUs, and no partition is on an unknown GPU.
      for (std::uint32_t g = 0; g < q.shapes.size(); ++g) {
        std::vector<sm_count> sizes;
        for (const assignment& p : found)
          if (p.gpu == g) sizes.push_back(choices.candidates()[p.candidate].sms);
        REQUIRE(q.shapes[g].can_make(sizes));
      }
      for (const assignment& p : found) REQUIRE(p.gpu < q.shapes.size());
      if (!is_there || part > 0.8) continue;
      plan_finaliser settling(q.table, choices, beside);
      const std::optional<partition_plan> plan = settling.plan(found);
      if (plan) REQUIRE(faults_of(*plan, scaled, q.table, q.shapes, beside).empty());
    }
  }
  CHECK(plans > 300);
  CHECK(hopeless > 200);
  CHECK(between > 10);
  CHECK(proven > 5); // though they would have a plan alone
}

TEST_CASE("branch and price goes on after a rejected solution, up to its limit") {
  std::mt19937_64 random(83);
  std::uint32_t most = 0;
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    const question q = ask(random);
    const candidate_table choices(q.table, q.demands, q.shapes);
    const by_neighbour beside;
    for (const std::uint32_t refused : {1u, 200u}) {
      std::uint32_t seen = 0;
      branch_and_price search(q.table, choices, q.needs, beside, {{3, 1, 1}, 400, refused});
      REQUIRE(!search.run([&](std::span<const assignment>) {
        ++seen;
        return false;
      }));
      REQUIRE(seen <= refused);
      most = std::max(most, seen);
    }
  }
  CHECK(most > 1);
}

TEST_CASE("branch and price does nothing for very many demands") {
  std::mt19937_64 random(84);
  const latency_table t = random_table(random, 40, {8, 16}, 2);
  std::vector<model_demand> demands;
  for (std::size_t m = 0; m < 40; ++m) demands.push_back({m, 1, 8 * t.latency(m, 2, sm_count{8})});
  const std::vector<gpu_shape> shapes(2);
  const candidate_table choices(t, demands, shapes);
  const std::vector<double> needs(40, 1.0);
  const by_neighbour beside;
  branch_and_price search(t, choices, needs, beside, {});
  CHECK(search.scale() == std::numeric_limits<double>::infinity());
  CHECK(!search.run([](std::span<const assignment>) { return true; }));
}

} // namespace gsched::testing
