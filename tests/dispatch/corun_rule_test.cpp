// SPDX-License-Identifier: Apache-2.0
// Which models may run side by side.
#include <gsched/core/error.hpp>
#include <gsched/dispatch/corun_rule.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace gsched;

namespace {

using rule_row = corun_rule::row;
using model_limits = std::vector<corun_limit>;
using pair_slowdowns = std::vector<corun_slowdown>;

template <class F>
std::string rule_refusal(F f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "none";
}

} // namespace

TEST_CASE("corun_rule: limits and slow-downs of pairs; groups by the sum of excesses") {
  const model_limits models{{"a", 1.2}, {"b", 1.5}, {"c"}};
  const pair_slowdowns pairs{{"a", "b", 1.2}, {"b", "a", 0.97}, {"a", "c", 1.1}, {"c", "a", 3}};
  const corun_rule r(models, pairs);
  const rule_row a = r.row_of("a"), b = r.row_of("b"), c = r.row_of("c"), d = r.row_of("d");
  CHECK(r.models() == 3);
  CHECK(d == r.others());
  CHECK(r.allows(std::array{a, b}));       // at the limit
  CHECK(r.allows(std::array{a, c}));       // c does not care
  CHECK(r.allows(std::array{b, c, c, b})); // not known: not slowed
  CHECK_FALSE(r.allows(std::array{a, b, c}));
  CHECK_FALSE(r.allows(std::array{c, a, b}));
  CHECK_FALSE(r.allows(std::array{a, c, c, c}));
  CHECK(r.allows(std::array{d, a, d}));
  CHECK(r.of(b, a) == 0);
  CHECK(r.knows(a, a));
  CHECK(r.knows(a, b));
  CHECK_FALSE(r.knows(b, c));
  CHECK_FALSE(r.knows(d, a));
  CHECK_FALSE(r.knows(d, d));
}

TEST_CASE("corun_rule: pairs that are not known can be refused, whatever the limits") {
  const model_limits models{{"a"}, {"b"}, {"c", 1.1}};
  const pair_slowdowns pairs{{"a", "b", 9}, {"b", "a", 9}, {"a", "c", 1.0}};
  const corun_rule r(models, pairs, unknown_pairs::refused);
  const rule_row a = 0, b = 1, c = 2, d = r.others();
  CHECK(r.allows(std::array{a, b, b}));
  CHECK_FALSE(r.allows(std::array{a, c})); // c beside a is not known
  CHECK_FALSE(r.allows(std::array{a, d}));
  CHECK_FALSE(r.allows(std::array{d, d}));
  CHECK(r.allows(std::array{c, c}));
}

TEST_CASE("corun_rule: is made from any prediction of pairs") {
  const model_limits models{{"a", 1.3}, {"b", 1.3}};
  std::vector<std::pair<std::size_t, std::size_t>> asked;
  const corun_rule r = corun_rule::predicted(models, [&](std::size_t i, std::size_t j) {
    asked.emplace_back(i, j);
    return std::array{1.0 + static_cast<double>(i + j) / 10, 1.4};
  });
  CHECK(asked == std::vector<std::pair<std::size_t, std::size_t>>{{0, 0}, {0, 1}, {1, 1}});
  CHECK(r.of(0, 0) == 4000); // the larger one of two equal graphs
  CHECK(r.of(0, 1) == 1000);
  CHECK(r.of(1, 0) == 4000);
}

TEST_CASE("corun_rule: refuses what makes no sense, in one line") {
  const model_limits one{{"a", 1.2}};
  const auto made = [](model_limits m, pair_slowdowns s) {
    return [m = std::move(m), s = std::move(s)] { static_cast<void>(corun_rule(m, s)); };
  };
  CHECK(rule_refusal(made({{"a"}, {"a"}}, {})) == "corun_rule: a is named twice, expected once");
  CHECK(rule_refusal(made({{"a", 0.9}}, {})) == "corun_rule: limit 0.9 of a, expected at least 1");
  CHECK(rule_refusal(made({{"a", std::numeric_limits<double>::quiet_NaN()}}, {})) ==
        "corun_rule: limit nan of a, expected at least 1");
  CHECK(rule_refusal(made(one, {{"a", "a", 0}})) ==
        "corun_rule: slow-down 0 of a beside a, expected a finite number above 0");
  CHECK(rule_refusal(made(one, {{"a", "b", 2}})) ==
        "corun_rule: b has a slow-down and no limit, expected a named model");
}
