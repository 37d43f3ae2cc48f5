// SPDX-License-Identifier: Apache-2.0
#include "interference/refusal.hpp"

#include <gsched/interference/error_summary.hpp>
#include <gsched/interference/linear_law.hpp>
#include <gsched/io/coefficients_json.hpp>

#include <doctest/doctest.h>

#include <sstream>
#include <string>

namespace gsched::testing {
namespace {

interference_coefficients some() {
  interference_coefficients c;
  c.disjoint.c = {0.1, 0.2, -0.3, 0.4, 1.05};
  c.shared.c = {1, 2, 3, 4, 5};
  c.shared_kernels.tail = 0.75;
  return c;
}

std::string written(const interference_coefficients& c) {
  std::ostringstream out;
  write_coefficients(out, c);
  return out.str();
}

std::string refused(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  text.replace(at, what.size(), by);
  return refusal([&] { static_cast<void>(parse_coefficients(text, "c.json")); });
}

} // namespace

TEST_CASE("the linear law adds up its terms and is at least 1") {
  linear_law law;
  CHECK(law.slowdown({1, 1}, {1, 1}) == 1);
  law.c = {0.1, 0.2, 0.3, 0.4, 1};
  CHECK(law.slowdown({0.5, 0.25}, {1, 0.5}) == doctest::Approx(1 + 0.05 + 0.2 + 0.075 + 0.2));
  law.c = {0, 0, -1, 0, 1};
  CHECK(law.slowdown({0, 0.5}, {0, 0}) == 1);
}

TEST_CASE("error summaries are quantiles") {
  CHECK(relative_error(1.1, 1) == doctest::Approx(0.1));
  CHECK(relative_error(1, 2) == doctest::Approx(0.5));
  const error_summary none = summary_of({});
  CHECK(none.count == 0);
  std::vector<double> errors;
  for (int i = 100; i >= 0; --i) errors.push_back(i);
  const error_summary s = summary_of(errors);
  CHECK(s.count == 101);
  CHECK(s.p50 == 50);
  CHECK(s.p90 == doctest::Approx(90));
  CHECK(s.p95 == doctest::Approx(95));
  CHECK(s.max == 100);
  CHECK(summary_of({1, 2}).p50 == doctest::Approx(1.5));
}

TEST_CASE("coefficients are read back and written to the same bytes") {
  const std::string text = written(some());
  CHECK(parse_coefficients(text, "c.json") == some());
  CHECK(written(parse_coefficients(text, "c.json")) == text);
}

TEST_CASE("the shipped coefficients are read") {
  const interference_coefficients c =
      load_coefficients(GSCHED_SOURCE_DIR "/tools/data/interference/h200.json");
  CHECK(c.disjoint.slowdown({0.3, 0.1}, {0.3, 0.1}) > 1.1);
  CHECK(c.disjoint.slowdown({0.3, 0.1}, {0.3, 0.1}) < 1.3);
}

TEST_CASE("bad coefficients are refused in one line") {
  const std::string text = written(some());
  CHECK(refused(text, "\"gsched_interference\": 1", "\"gsched_interference\": 2") ==
        "c.json: /gsched_interference is 2, expected a whole number, 1 to 1");
  CHECK(refused(text, "\"l2_own\": 0.1", "\"l2_own\": \"0.1\"") ==
        "c.json: /disjoint/l2_own is \"0.1\", expected a number");
  CHECK(refused(text, "l2_own", "l2_mine") ==
        "c.json: /disjoint/l2_own is missing, expected a number");
  CHECK(refused(text, "\"tail\": 0.75", "\"tail\": -0.75") ==
        "c.json: /shared_kernels/tail is -0.75, expected a number from 0 to 1e6");
  CHECK(refused(text, "\"constant\": 1.05", "\"constant\": 1.05, \"more\": 1") ==
        "c.json: /disjoint has 6 fields, expected 5");
  CHECK(refused(text, text, "[]") == "c.json: the document is an array, expected a JSON object");
  CHECK(refusal([] { static_cast<void>(load_coefficients("nowhere.json")); }) ==
        "nowhere.json: cannot be opened, expected a file of coefficients");
}

} // namespace gsched::testing
