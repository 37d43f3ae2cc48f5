// SPDX-License-Identifier: Apache-2.0
// Slow-downs of pairs for rules, and what a fit has not seen.
#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/interference/beyond_fit.hpp>
#include <gsched/interference/corun_pairs.hpp>
#include <gsched/interference/pair_slowdowns.hpp>
#include <gsched/io/profile_json.hpp>
#include <gsched/occupancy/limits.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

kernel_chain chain_of_model(const std::string& name) {
  const profile p = load_profile(GSCHED_SOURCE_DIR "/tools/data/profiles/" + name + ".json");
  CHECK(has_counters(p));
  return chain_of(p, limits_for(9, 0), solo_metrics{});
}

/// One kernel on half of an SM's space, with these uses.
kernel_chain one_kernel(double dram, double tensor) {
  kernel_chain c;
  c.sms = 100;
  chain_kernel k;
  k.us = 10;
  k.blocks = 100;
  k.per_sm = 2;
  k.takes.of(resource::dram) = dram;
  k.takes.of(resource::tensor) = tensor;
  c.kernels.push_back(k);
  return c;
}

} // namespace

TEST_CASE("slow-downs by name are the largest of the pairs that share all SMs") {
  const auto pair = [](corun_side a, corun_side b) { return corun_pair{{a, b}}; };
  const auto side = [](const char* model, std::uint32_t batch, std::uint32_t on, int corun) {
    return corun_side{model, batch, sm_count{on}, from_us(100), from_us(corun)};
  };
  const std::vector<corun_pair> pairs{
      pair(side("a", 8, 132, 150), side("b", 1, 132, 120)),
      pair(side("a", 8, 64, 900), side("b", 1, 68, 900)),   // SMs of their own
      pair(side("b", 1, 132, 110), side("a", 8, 132, 170)), // the same again
      pair(side("a", 8, 132, 110), side("a", 8, 132, 130)), // beside itself
      pair(side("a", 1, 132, 300), side("b", 1, 132, 100))};
  CHECK(slowdowns_by_name(pairs, sm_count{132}) == named_slowdowns{{{"a_b8", "b_b1"}, 1.7},
                                                                   {{"b_b1", "a_b8"}, 1.2},
                                                                   {{"a_b8", "a_b8"}, 1.3},
                                                                   {{"a_b1", "b_b1"}, 3.0},
                                                                   {{"b_b1", "a_b1"}, 1.0}});
  CHECK(slowdowns_by_name(pairs, sm_count{100}).empty());
}

TEST_CASE("a rule from pair_slowdowns keeps a small model from one that fills the GPU") {
  const std::vector<corun_limit> models{{"small", 1.5}, {"filling", 1.5}, {"tiny", 1.5}};
  const std::array chains{chain_of_model("resnet50_b1"), chain_of_model("vgg16_b32"),
                          chain_of_model("lenet_b1")};
  const corun_rule rule = corun_rule::predicted(models, [&](std::size_t i, std::size_t j) {
    return pair_slowdowns(chains[i], chains[j], {});
  });
  const auto small = rule.row_of("small"), filling = rule.row_of("filling");
  const auto tiny = rule.row_of("tiny");
  CHECK_FALSE(rule.allows(std::array{small, filling}));
  CHECK(rule.allows(std::array{small, small}));
  CHECK(rule.allows(std::array{small, tiny}));
  CHECK(rule.knows(filling, filling));
}

TEST_CASE("pair_slowdowns are those of the two graphs on one partition, in the order given") {
  const kernel_chain a = one_kernel(0.9, 0), b = one_kernel(0.3, 0.5);
  const interference_coefficients c;
  const std::array<double, 2> slow = pair_slowdowns(a, b, c);
  const std::array<corunner, 2> both{corunner{&a, 0}, corunner{&b, 0}};
  const std::vector<double> graphs = corun_slowdowns(both, c.contention, c.replay);
  CHECK(slow[0] == graphs[0]);
  CHECK(slow[1] == graphs[1]);
  CHECK(slow[0] != slow[1]);
}

TEST_CASE("corun_slowdowns refuses graphs that cannot be replayed beside each other") {
  const kernel_chain a = one_kernel(0.9, 0);
  kernel_chain half = a, empty = a;
  half.sms = a.sms / 2;
  empty.kernels.clear();
  const auto refusal = [](const corunner& x, const corunner& y) -> std::string {
    const interference_coefficients c;
    try {
      static_cast<void>(corun_slowdowns(std::array{x, y}, c.contention, c.replay));
    } catch (const error& e) {
      CHECK(e.code() == errc::bad_option);
      return e.what();
    }
    return "";
  };
  CHECK(refusal({&a, 0}, {&half, 0}) ==
        "corun_slowdowns: graphs of partition 0 on 100 and 50 SMs, expected the same number");
  CHECK(refusal({&a, 0}, {&half, 1}).empty());
  for (const kernel_chain* none :
       {static_cast<const kernel_chain*>(nullptr), &std::as_const(empty)})
    CHECK(refusal({&a, 0}, {none, 1}) ==
          "corun_slowdowns: a graph without kernels, expected one that takes time");
}

TEST_CASE("beyond_fit names what graphs demand together beyond a fit") {
  const kernel_chain a = one_kernel(0.6, 0.5), b = one_kernel(0.5, 0.4);
  const std::array<corunner, 3> all{corunner{&a, 0}, corunner{&b, 0}, corunner{&b, 0}};
  const std::array<corunner, 2> both{corunner{&a, 0}, corunner{&b, 0}};
  const std::array<corunner, 2> disjoint{corunner{&a, 0}, corunner{&b, 1}};
  seen_range seen;
  CHECK(beyond_fit(seen, both) == "tensor, dram");
  CHECK(beyond_fit(seen, disjoint) == "dram");
  seen.sum[index(resource::dram)] = 1.1;
  CHECK(beyond_fit(seen, both) == "tensor");
  CHECK(beyond_fit(seen, all) == "graphs, tensor, dram");
  seen.sum.fill(2);
  CHECK(beyond_fit(seen, both).empty());
}

} // namespace gsched::testing
