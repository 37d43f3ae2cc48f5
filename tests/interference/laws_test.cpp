// SPDX-License-Identifier: Apache-2.0
#include "interference/refusal.hpp"

#include <gsched/interference/error_summary.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/mean_slowdown.hpp>
#include <gsched/io/coefficients_json.hpp>

#include <doctest/doctest.h>

#include <random>
#include <sstream>
#include <string>

namespace gsched::testing {
namespace {

interference_coefficients some() {
  interference_coefficients c;
  c.contention.l2_latency = 0.125;
  c.contention.older = 0.5;
  c.replay.gap_us = 0.75;
  c.seen.sum[index(resource::dram)] = 1.25;
  c.seen.graphs = 3;
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
  const mean_use use{0.3, 0.1, 0.8, 0.1};
  CHECK(mean_slowdown(c, use, use) > 1.05);
  CHECK(mean_slowdown(c, use, use) < 1.3);
}

TEST_CASE("means: at least 1, 1 alone, never less for more use of a neighbour") {
  const interference_coefficients c =
      load_coefficients(GSCHED_SOURCE_DIR "/tools/data/interference/h200.json");
  std::mt19937_64 random(5);
  const auto any = [&](double most) {
    return std::uniform_real_distribution<double>(0, most)(random);
  };
  for (int i = 0; i < 20000; ++i) {
    const mean_use own{any(1), any(1), any(1), any(0.5), any(1)};
    mean_use others{any(2), any(2), any(1), any(1)};
    CHECK(mean_slowdown(c, own, {}) == doctest::Approx(1));
    const double before = mean_slowdown(c, own, others);
    REQUIRE(before >= 1);
    double mean_use::*const more[] = {&mean_use::l2, &mean_use::dram, &mean_use::starts};
    others.*more[random() % 3] += any(0.5);
    REQUIRE(mean_slowdown(c, own, others) >= before * (1 - 1e-12));
  }
}

TEST_CASE("means: three graphs at 90% of DRAM share what there is") {
  const interference_coefficients c =
      load_coefficients(GSCHED_SOURCE_DIR "/tools/data/interference/h200.json");
  const mean_use one{0.4, 0.9, 0.5, 0}, two{0.8, 1.8, 0.5, 0};
  CHECK(mean_slowdown(c, one, two) >= 3 * 0.9);
}

TEST_CASE("means: a profile says how many kernels start, and how much their pauses cost") {
  kernel_chain chain;
  chain.sms = 132;
  chain.gap_us = 1;
  chain.kernels.resize(2);
  chain.kernels[0].us = 7;
  chain.kernels[0].blocks = 500;
  chain.kernels[1].us = 1;
  chain.kernels[1].takes.of(resource::fma) = 1;
  mean_use use;
  use_kernels(use, chain);
  CHECK(use.starts == doctest::Approx((2 + 1) / 10.0));
  CHECK(use.exposed == doctest::Approx(0.7));
}

TEST_CASE("bad coefficients are refused in one line") {
  const std::string text = written(some());
  CHECK(refused(text, "\"gsched_interference\": 4", "\"gsched_interference\": 3") ==
        "c.json: /gsched_interference is 3, expected a whole number, 4 to 4");
  CHECK(refused(text, "\"l2_latency\": 0.125", "\"l2_latency\": \"0.1\"") ==
        "c.json: /contention/l2_latency is \"0.1\", expected a number");
  CHECK(refused(text, "l2_latency", "l2_mine") ==
        "c.json: /contention/l2_latency is missing, expected a number");
  CHECK(refused(text, "\"gap_us\": 0.75", "\"gap_us\": -0.75") ==
        "c.json: /replay/gap_us is -0.75, expected a number from 0 to 1000000");
  CHECK(refused(text, "\"older\": 0.5", "\"older\": 1.5") == // more than all of its demand
        "c.json: /contention/older is 1.5, expected a number from 0 to 1");
  CHECK(refused(text, "\"older\": 0.5", "\"older\": 0.5, \"more\": 1") ==
        "c.json: /contention has 8 fields, expected 7");
  CHECK(refused(text, "\"dram\": 1.25", "\"dram\": -1") ==
        "c.json: /seen/dram is -1, expected a number from 0 to 1000000");
  CHECK(refused(text, "\"graphs\": 3", "\"graphs\": 0") ==
        "c.json: /graphs is 0, expected a whole number, 1 to 1000");
  CHECK(refused(text, text, "[]") == "c.json: the document is an array, expected a JSON object");
  CHECK(refusal([] { static_cast<void>(load_coefficients("nowhere.json")); }) ==
        "nowhere.json: cannot be opened, expected a file of coefficients");
}

} // namespace gsched::testing
