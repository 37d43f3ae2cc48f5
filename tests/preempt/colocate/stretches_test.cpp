// SPDX-License-Identifier: Apache-2.0
#include "preempt/colocate/random_variants.hpp"

#include <gsched/preempt/colocate/one_corunner.hpp>
#include <gsched/preempt/colocate/padded_programs.hpp>
#include <gsched/preempt/colocate/stretches.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

using namespace gsched;

namespace {

std::uint32_t below(std::mt19937& random, std::uint32_t n) {
  return static_cast<std::uint32_t>(random() % n);
}

kernel_variant variant(duration kernel, duration block, std::uint32_t blocks, std::uint32_t level) {
  kernel_variant k;
  k.kernel_time = kernel;
  k.block_time = block;
  k.threads_per_block = 128;
  k.registers_per_thread = 32;
  k.blocks = blocks;
  k.level = level;
  return k;
}

pad_program drawn(std::mt19937& random, std::size_t most) {
  std::vector<std::vector<kernel_variant>> all(1 + random() % most);
  for (auto& of : all)
    if (random() % 8 > 0)
      of = {variant(duration{1000 + random() % 20000}, duration{500 + random() % 8000},
                    1 + below(random, 900), 1 + below(random, 8))};
  return pad_program("drawn", all);
}

pad_options how() {
  pad_options o;
  o.sms = sm_count{132};
  o.level = level_rule::needed;
  o.parts = 1;
  return o;
}

/// The operations of a plan, each with its blocks.
pad_part part(std::uint32_t host, std::uint32_t corunner) {
  return {host, 0, corunner, 0, 0, 1, 1};
}

} // namespace

TEST_CASE("one co-runner: whole operations, in order, by the rules, and no room is left that it "
          "could use") {
  std::mt19937 random(7);
  std::size_t carried = 0, passed = 0;
  for (int round = 0; round < 2000; ++round) {
    const pad_program host = drawn(random, 30), corunner = drawn(random, 30);
    const auto from = static_cast<std::uint32_t>(random() % corunner.size());
    const std::uint32_t salt = static_cast<std::uint32_t>(random());
    const auto level = [&](std::size_t i, std::uint32_t k) {
      const std::uint32_t least =
          std::min(host.variants(i).front().level, corunner.variants(k).front().level);
      return (i * 31 + k + salt) % 5 == 0 ? 0 : least;
    };
    const std::vector<pad_part> plan = plan_one_corunner(host, corunner, from, how(), level);
    std::uint32_t k = from, block = 0;
    std::int64_t last = -1;
    for (const pad_part& p : plan) {
      REQUIRE(static_cast<std::int64_t>(p.host_operation) > last);
      last = p.host_operation;
      REQUIRE(p.corunner_operation == k);
      REQUIRE(p.first_block == block);
      REQUIRE(p.blocks > 0);
      const kernel_variant& real = host.variants(p.host_operation).front();
      kernel_variant next = corunner.variants(k).front();
      next.level = level(p.host_operation, k);
      REQUIRE(next.level > 0);
      REQUIRE(terms_of(real, level_rule::needed, sm_count{132}).admit(next));
      pad_capacity room(real, how());
      REQUIRE(p.blocks == room.take(next, next.blocks - block));
      REQUIRE(p.level == room.level());
      block += p.blocks;
      if (block == next.blocks) {
        ++k;
        block = 0;
      }
    }
    REQUIRE(block == 0); // all of it
    carried += k - from;
    passed += corunner.size() - k;
    // The rest of the last operation does not fit into the rest of the host.
    if (k == corunner.size() || corunner.variants(k).empty()) continue;
    std::uint32_t left = corunner.variants(k).front().blocks;
    for (std::size_t i = static_cast<std::size_t>(last + 1); i < host.size(); ++i) {
      if (host.variants(i).empty() || level(i, k) == 0) continue;
      kernel_variant next = corunner.variants(k).front();
      next.level = level(i, k);
      pad_capacity room(host.variants(i).front(), how());
      left -= room.take(next, left);
    }
    REQUIRE(left > 0);
  }
  CHECK(carried > 1000);
  CHECK(passed > 1000);
}

TEST_CASE("stretches: each begins where the co-runner can stand, and a chain of them leads on") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const std::size_t hosts = 1 + random() % 4;
    std::vector<padded_corunner> corunners(1 + random() % 3);
    for (padded_corunner& g : corunners) {
      g.operations = 1 + below(random, 60);
      for (int i = 0; i < 3; ++i) g.stations.push_back(below(random, g.operations));
    }
    const std::size_t most = 2 + random() % 20;
    std::map<std::tuple<std::size_t, std::size_t, std::uint32_t>, std::uint32_t> reach;
    const auto plan = [&](std::size_t r, std::size_t g, std::uint32_t from) {
      const std::uint32_t n = random() % 9 == 0 ? 0 : below(random, 7);
      const std::uint32_t end = std::min(from + n, corunners[g].operations);
      reach[{r, g, from}] = end;
      std::vector<pad_part> parts;
      for (std::uint32_t k = from; k < end; ++k) parts.push_back(part(k - from, k));
      return parts;
    };
    const auto all = plan_stretches(hosts, corunners, most, plan);
    std::vector<std::set<std::uint32_t>> places(corunners.size());
    for (std::size_t g = 0; g < corunners.size(); ++g)
      places[g].insert(corunners[g].stations.begin(), corunners[g].stations.end());
    std::set<std::tuple<std::size_t, std::size_t, std::uint32_t>> seen;
    for (const padded_stretch& s : all) {
      REQUIRE(s.from < s.to);
      REQUIRE(s.to <= corunners[s.corunner].operations);
      REQUIRE(s.to <= (reach[{s.real_time, s.corunner, s.from}]));
      // an earlier stretch ends there, or it is an initial position
      REQUIRE(places[s.corunner].contains(s.from));
      REQUIRE(seen.emplace(s.real_time, s.corunner, s.from).second);
      REQUIRE(s.parts.size() == s.to - s.from);
      REQUIRE(s.parts.back().corunner_operation + 1 == s.to);
      places[s.corunner].insert(s.to);
    }
    for (std::size_t g = 0; g < corunners.size(); ++g) {
      const std::set<std::uint32_t> first(corunners[g].stations.begin(),
                                          corunners[g].stations.end());
      REQUIRE(places[g].size() <= std::max(most, first.size()) + 1);
    }
    // No stretch that leads to a position is omitted.
    for (const auto& [of, end] : reach) {
      const auto& [r, g, from] = of;
      if (end == from) continue;
      const auto next = places[g].upper_bound(from);
      REQUIRE(seen.contains(of) == (next != places[g].end() && *next <= end));
    }
  }
}

TEST_CASE("padded programs: found by all three, and a later one takes the place") {
  const program a("a", std::vector<operation>(3)), b("b", std::vector<operation>(3));
  std::mt19937 random(5);
  padded_programs table;
  std::map<std::tuple<unsigned, unsigned, unsigned>, std::uint32_t> model;
  for (int i = 0; i < 2000; ++i) {
    const unsigned r = below(random, 6), g = below(random, 6), from = below(random, 20);
    const auto to = static_cast<std::uint32_t>(random() % 100);
    table.add(program_id{r}, program_id{g}, from, {random() % 2 ? &a : &b, to});
    model[{r, g, from}] = to;
  }
  CHECK(table.size() == model.size());
  for (unsigned r = 0; r < 7; ++r)
    for (unsigned g = 0; g < 7; ++g)
      for (unsigned from = 0; from < 21; ++from) {
        const padded_program* const found = table.find(program_id{r}, program_id{g}, from);
        const auto is = model.find({r, g, from});
        REQUIRE((found != nullptr) == (is != model.end()));
        if (found != nullptr) REQUIRE(found->to == is->second);
      }
}
