// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"

#include <gsched/partition/detail/cut_search.hpp>
#include <gsched/partition/detail/partition_decision.hpp>
#include <gsched/partition/detail/settle.hpp>
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
namespace {

/// A neighbour costs a little, and every SM that it has more, of some models more than of others.
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
  std::vector<demand> demands{};
  std::vector<gpu_shape> shapes{};
  std::vector<double> needs{};
};

/// Small enough for all cuts: GPUs of three groups with and without something left over.
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

/// What any choice of pieces that fill a GPU serves, by trying all.
void every_cut(const question& q, const piece_menu& menu, std::vector<owned_piece>& chosen,
               std::uint32_t plain, bool last, std::size_t from,
               std::vector<std::vector<double>>& all) {
  const gpu_kind& k = menu.kinds()[0];
  if (plain == k.plain && last == k.has_last) {
    std::vector<gpulet> here;
    here.reserve(chosen.size());
    for (const owned_piece& o : chosen)
      here.push_back({0, menu.pieces()[o.piece].sms, {}, {{o.demand, 1, 1}}});
    all.emplace_back(q.demands.size(), 0.0);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const demand& d = q.demands[chosen[i].demand];
      const double factor = by_neighbour{}(here, i, d.model);
      all.back()[d.model] += capacity_of(q.table, d.model, here[i].sms, d.slo, factor).rate;
    }
  }
  for (std::size_t i = from; i < menu.pieces().size() * q.demands.size(); ++i) {
    const owned_piece o{i / q.demands.size(), i % q.demands.size()};
    const piece& p = menu.pieces()[o.piece];
    if (plain + p.plain > k.plain || (last && p.last)) continue;
    chosen.push_back(o);
    every_cut(q, menu, chosen, plain + p.plain, last || p.last, i, all);
    chosen.pop_back();
  }
}

} // namespace

TEST_CASE("a pool has every cut of a GPU, and what its partitions do beside each other") {
  std::mt19937_64 random(81);
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    const question q = ask(random);
    const piece_menu menu(q.table, q.demands, q.shapes);
    const by_neighbour beside;
    const cut_rules all_cuts{3, std::numeric_limits<double>::infinity(), 1};
    cut_pool pool(q.table, menu, q.needs, beside, all_cuts);
    const std::vector<double> prices(2, 0.5);
    pool.grow(0, prices, 0);
    CHECK(!pool.grow(0, prices, 0)); // each once
    std::vector<std::vector<double>> every;
    std::vector<owned_piece> none;
    every_cut(q, menu, none, 0, false, 0, every);
    // What serves nothing at all is of no use; the others are there, with the same rates.
    std::multiset<std::vector<double>> expected, found;
    const auto rounded = [&](std::vector<double> parts) {
      for (double& p : parts) p = std::round(std::min(1.0, p) * 1e6);
      return parts;
    };
    for (std::vector<double> rates : every) {
      for (std::size_t d = 0; d < 2; ++d) rates[d] /= q.needs[d];
      expected.insert(rounded(rates));
    }
    for (const owned_cut& c : pool.cuts()) found.insert(rounded(c.parts));
    for (const std::vector<double>& f : found) REQUIRE(found.count(f) <= expected.count(f));
    for (const std::vector<double>& e : expected)
      REQUIRE(std::any_of(found.begin(), found.end(), [&](const std::vector<double>& f) {
        return f[0] >= e[0] - 1 && f[1] >= e[1] - 1;
      }));
  }
}

TEST_CASE("a cut of each GPU is found wherever there is one") {
  std::mt19937_64 random(82);
  int plans = 0, hopeless = 0, between = 0, proven = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    question q = ask(random);
    const piece_menu whole(q.table, q.demands, q.shapes);
    std::vector<std::vector<double>> every;
    std::vector<owned_piece> none;
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
      std::vector<demand> scaled = q.demands;
      std::vector<double> needs;
      needs.reserve(scaled.size());
      for (demand& d : scaled) needs.push_back(d.rate *= most * part);
      const piece_menu menu(q.table, scaled, q.shapes);
      const by_neighbour beside;
      cut_search search(q.table, menu, needs, beside, {{3, 1, 1}});
      std::vector<dealt_piece> found;
      const bool is_there = search.run([&](std::span<const dealt_piece> pieces) {
        found.assign(pieces.begin(), pieces.end());
        return true;
      });
      REQUIRE(is_there == (part < 1));
      REQUIRE((search.scale() >= 1 || !is_there));
      plans += is_there;
      hopeless += search.scale() < 1;
      between += !is_there && search.scale() >= 1;
      const search_effort once{20'000, 1, 3}; // what is proven is proven in the first round
      const auto known = detail::decide(q.table, scaled, q.shapes, beside, once).known;
      REQUIRE((known != verdict::impossible || !is_there));
      proven += known == verdict::impossible &&
                detail::decide(q.table, scaled, q.shapes, no_interference{}, once).plan;
      // All fit their GPUs, and nobody is on a GPU that is not there.
      for (std::uint32_t g = 0; g < q.shapes.size(); ++g) {
        std::vector<sm_count> sizes;
        for (const dealt_piece& p : found)
          if (p.gpu == g) sizes.push_back(menu.pieces()[p.piece].sms);
        REQUIRE(q.shapes[g].can_make(sizes));
      }
      for (const dealt_piece& p : found) REQUIRE(p.gpu < q.shapes.size());
      if (!is_there || part > 0.8) continue;
      piece_settling settling(q.table, menu, beside);
      const std::optional<partition_plan> plan = settling.plan(found);
      if (plan) REQUIRE(faults_of(*plan, scaled, q.table, q.shapes, beside).empty());
    }
  }
  CHECK(plans > 300);
  CHECK(hopeless > 200);
  CHECK(between > 10);
  CHECK(proven > 5); // though they would have a plan alone
}

TEST_CASE("what is not accepted is not the end, until enough were refused") {
  std::mt19937_64 random(83);
  std::uint32_t most = 0;
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    const question q = ask(random);
    const piece_menu menu(q.table, q.demands, q.shapes);
    const by_neighbour beside;
    for (const std::uint32_t refused : {1u, 200u}) {
      std::uint32_t seen = 0;
      cut_search search(q.table, menu, q.needs, beside, {{3, 1, 1}, 400, refused});
      REQUIRE(!search.run([&](std::span<const dealt_piece>) {
        ++seen;
        return false;
      }));
      REQUIRE(seen <= refused);
      most = std::max(most, seen);
    }
  }
  CHECK(most > 1);
}

TEST_CASE("very many demands are not looked at, nor none") {
  std::mt19937_64 random(84);
  const latency_table t = random_table(random, 40, {8, 16}, 2);
  std::vector<demand> demands;
  for (std::size_t m = 0; m < 40; ++m) demands.push_back({m, 1, 8 * t.latency(m, 2, sm_count{8})});
  const std::vector<gpu_shape> shapes(2);
  const piece_menu menu(t, demands, shapes);
  const std::vector<double> needs(40, 1.0);
  const by_neighbour beside;
  cut_search search(t, menu, needs, beside, {});
  CHECK(search.scale() == std::numeric_limits<double>::infinity());
  CHECK(!search.run([](std::span<const dealt_piece>) { return true; }));
}

} // namespace gsched::testing
