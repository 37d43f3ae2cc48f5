// SPDX-License-Identifier: Apache-2.0
#include "serving/instant.hpp"

#include <gsched/core/error.hpp>
#include <gsched/partition/contention_interference.hpp>
#include <gsched/serving/learning/corun_learning.hpp>
#include <gsched/serving/learning/time_corrections.hpp>
#include <gsched/serving/simulated_batches.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace gsched::testing {
namespace {

using namespace std::chrono_literals;

interference_coefficients some_law() {
  interference_coefficients c;
  c.contention.l2_latency = 0.3;
  c.contention.dram_latency = 0.5;
  c.replay = {0.6, 0.3};
  return c;
}

/// Models on partitions of 32 SMs each, whose batches of 1, 2 and 4 start at random times.
struct world {
  explicit world(std::size_t models)
      : factors(models), table_error(models, 1.0), idle(models, 0.3) {
    std::vector<latency_row> rows;
    for (std::size_t m = 0; m < models; ++m)
      for (const std::uint32_t s : {32u, 64u})
        for (std::uint32_t b = 1; b <= 4; ++b)
          rows.push_back({name(m), b, sm_count{s}, (300us + 200us * b) * 32 / static_cast<int>(s)});
    table = latency_table(rows);
  }
  static std::string name(std::size_t m) { return "m" + std::to_string(m); }

  [[nodiscard]] solo_table metrics(bool are_true) const {
    solo_table t;
    for (std::size_t m = 0; m < factors.size(); ++m) {
      solo_metrics s{name(m), 1, 500us, 0.15, 0.1, 0.9};
      s.starts = 20;
      if (are_true) s.factors = factors[m];
      t.add(s);
      s.batch = 4;
      s.solo = 1100us;
      t.add(s);
    }
    return t;
  }

  /// What is learned while all run on one GPU for so long.
  std::vector<corun_factors> learn(duration length, int periods = 3,
                                   corun_learning_options o = {}) {
    const solo_table real = metrics(true), known = metrics(false);
    const interference_function truth = contention_interference(table, real, some_law());
    const contention_interference law(table, known, some_law());
    const latency_table times = with_corrections(table, table_error);
    simulated_batches runner(times, truth, 1);
    corun_learning learning(table, law, 1, o);
    learning_errors.clear();
    watched.clear();
    using start = std::tuple<time_point, std::uint32_t>;
    std::priority_queue<start, std::vector<start>, std::greater<>> starts;
    std::mt19937_64 random(seed);
    std::vector<served_partition> partitions(factors.size());
    runner.activate(partitions);
    for (std::uint32_t p = 0; p < factors.size(); ++p) starts.emplace(time_point{p * 10us}, p);
    const auto span = [&](double mean_us) {
      return from_us(std::exponential_distribution<>(1 / mean_us)(random));
    };
    std::uniform_int_distribution<std::uint32_t> sizes(1, 4);
    std::normal_distribution<> noise;
    for (int i = 1; i <= periods; ++i) {
      const time_point end{length * i / periods};
      while (runner.now() < end) {
        if (const auto ended = runner.try_end()) {
          const duration late = from_us(std::abs(jitter * noise(random)));
          learning.end(0, *ended, runner.now());
          const double busy_us = 700;
          starts.emplace(runner.now() + late +
                             span(1e-3 + busy_us * idle[*ended] / (1 - idle[*ended])),
                         *ended);
        } else if (!starts.empty() && std::get<0>(starts.top()) <= runner.now()) {
          const std::uint32_t p = std::get<1>(starts.top());
          starts.pop();
          const batch_run r{0, p, sm_count{32}, p, sizes(random)};
          learning.begin(r, runner.now());
          runner.begin(r);
        } else {
          runner.wait(std::min(end, starts.empty() ? end : std::get<0>(starts.top())));
        }
      }
      learning.close_period();
    }
    for (std::size_t m = 0; m < factors.size(); ++m) {
      watched.push_back(learning.watched(m));
      learning_errors.push_back(learning.errors(m));
    }
    return {learning.factors().begin(), learning.factors().end()};
  }

  latency_table table{std::vector<latency_row>{{"none", 1, sm_count{1}, 1us}}};
  std::vector<corun_factors> factors; ///< true ones
  std::vector<double> table_error;
  std::vector<double> idle; ///< part of the time without a batch
  double jitter = 0;
  std::uint64_t seed = 1;
  std::vector<std::uint64_t> watched;
  std::vector<corun_learning_errors> learning_errors;
};

corun_learning_options watch_all() {
  corun_learning_options o;
  o.between = {};
  return o;
}

void check_near(const std::vector<corun_factors>& found, const std::vector<corun_factors>& real,
                double error) {
  REQUIRE(found.size() == real.size());
  for (std::size_t m = 0; m < found.size(); ++m) {
    CAPTURE(m);
    CHECK(std::abs(std::log(found[m].sensitivity / real[m].sensitivity)) < error);
    CHECK(std::abs(std::log(found[m].pressure / real[m].pressure)) < error);
  }
}

} // namespace

TEST_CASE("corun_learning: where the law is right, factors stay near 1") {
  world w(4);
  check_near(w.learn(10s), w.factors, 0.02);
  for (const std::uint64_t n : w.watched) CHECK(n > 500); // partitions take turns
}

TEST_CASE("corun_learning: finds the factors of each model, and predicts with them") {
  world w(4);
  w.factors = {{2, 1}, {1, 2.5}, {0.5, 1}, {1, 0.4}};
  const std::vector<corun_factors> found = w.learn(30s, 12);
  check_near(found, w.factors, 0.2);
  for (const corun_learning_errors& e : w.learning_errors) {
    CHECK(e.batches > 1000);
    CHECK(e.learned < 0.5 * e.at_first);
  }
  CHECK(w.learn(30s, 12) == found); // equal calls, equal factors
}

TEST_CASE("corun_learning: a factor far from 1 is approached in steps, not overshot") {
  world w(6);
  w.factors[1].pressure = 4;
  for (int periods = 1; periods <= 6; ++periods) {
    const std::vector<corun_factors> found = w.learn(periods * 5s, periods);
    CHECK(found[1].pressure < 4.5);
    if (periods == 6) CHECK(found[1].pressure > 3);
  }
}

TEST_CASE("corun_learning: an error of the table is not taken for a factor") {
  world w(4);
  w.table_error = {1.6, 1, 0.8, 1.2};
  check_near(w.learn(20s), w.factors, 0.05);
  w.factors = {{2, 1}, {1, 2.5}, {0.5, 1}, {1, 0.4}};
  check_near(w.learn(30s, 12), w.factors, 0.3);
}

TEST_CASE("corun_learning: neighbours that never rest tell little, and change little") {
  world w(4);
  w.idle.assign(4, 0);
  w.table_error = {1.6, 1, 0.8, 1.2};
  check_near(w.learn(20s), w.factors, 0.25);
}

TEST_CASE("corun_learning: of a single pair only the product is known, and both factors share it") {
  world w(2);
  w.factors = {{2, 1}, {1, 1}};
  const std::vector<corun_factors> found = w.learn(30s, 6);
  CHECK(found[0].sensitivity == doctest::Approx(std::sqrt(2.0)).epsilon(0.05));
  CHECK(found[1].pressure == doctest::Approx(std::sqrt(2.0)).epsilon(0.05));
  CHECK(found[0].pressure == doctest::Approx(1).epsilon(0.05));
  CHECK(found[1].sensitivity == doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("corun_learning: follows a model that changes, and keeps what is not seen any more") {
  world w(3);
  const solo_table metrics = w.metrics(false);
  corun_learning learning(w.table, contention_interference(w.table, metrics, some_law()), 1,
                          watch_all());
  // Model 0 is watched beside model 1, or alone; by how much it is slowed is known.
  time_point now{};
  const auto batches = [&](double slow, int count) {
    for (int i = 0; i < count; ++i) {
      const bool is_beside = i % 2 == 0;
      if (is_beside) learning.begin({0, 1, sm_count{32}, 1, 1}, now);
      learning.begin({0, 0, sm_count{32}, 0, 1}, now);
      now += from_us(500 * (is_beside ? slow : 1));
      learning.end(0, 0, now);
      if (is_beside) learning.end(0, 1, now);
      now += 10us;
    }
    learning.close_period();
    return learning.factors()[0].sensitivity * learning.factors()[1].pressure;
  };
  double product = 0;
  for (int i = 0; i < 6; ++i) product = batches(1.2, 1000);
  CHECK(product > 1.5);
  const double before = product;
  for (int i = 0; i < 10; ++i) learning.close_period(); // nothing runs
  CHECK(learning.factors()[0].sensitivity * learning.factors()[1].pressure ==
        doctest::Approx(before).epsilon(0.02));
  for (int i = 0; i < 20000; ++i) { // alone: it tells nothing of factors
    learning.begin({0, 0, sm_count{32}, 0, 1}, now);
    now += 500us;
    learning.end(0, 0, now);
    if (i % 1000 == 999) learning.close_period();
  }
  CHECK(learning.factors()[0].sensitivity * learning.factors()[1].pressure > 0.9 * before);
  for (int i = 0; i < 12; ++i) product = batches(1.03, 1000);
  CHECK(product < 0.7);
  CHECK(learning.factors()[2] == corun_factors{}); // was never there
}

TEST_CASE("corun_learning: what is watched is not in step with batches at regular times") {
  world w(2);
  const solo_table metrics = w.metrics(false);
  corun_learning learning(w.table, contention_interference(w.table, metrics, some_law()), 1);
  time_point now{};
  for (int i = 0; i < 20000; ++i) { // every second one has a neighbour, by which it is slowed
    const bool is_beside = i % 2 == 0;
    if (is_beside) learning.begin({0, 1, sm_count{32}, 1, 1}, now);
    learning.begin({0, 0, sm_count{32}, 0, 1}, now);
    learning.end(0, 0, now + (is_beside ? 600us : 500us));
    now += 1ms;
    if (is_beside) learning.end(0, 1, now);
    if (i % 2000 == 1999) learning.close_period();
  }
  CHECK(learning.watched(0) < 20000 / 1.5);
  CHECK(learning.factors()[0].sensitivity * learning.factors()[1].pressure > 1.5);
}

TEST_CASE("corun_learning: on_gpu leaves out what the host adds") {
  world w(2);
  const solo_table metrics = w.metrics(false);
  const auto learned = [&](bool tells, bool warns = false) {
    corun_learning learning(w.table, contention_interference(w.table, metrics, some_law()), 1,
                            watch_all());
    time_point now{};
    for (int i = 0; i < 4000; ++i) {
      const bool is_beside = i % 2 == 0;
      if (is_beside) learning.begin({0, 1, sm_count{32}, 1, 1}, now);
      learning.begin({0, 0, sm_count{32}, 0, 1}, now);
      const duration ran = from_us(is_beside ? 530 : 500), host = from_us(is_beside ? 100 : 0);
      now += ran + host;
      learning.end(0, 0, now, tells ? std::optional(ran) : std::nullopt, warns ? host : duration{});
      if (is_beside) learning.end(0, 1, now);
      if (i % 1000 == 999) learning.close_period();
    }
    CHECK(learning.watched(0) == (warns && !tells ? 2000 : 4000)); // those without the neighbour
    return learning.factors()[0].sensitivity * learning.factors()[1].pressure;
  };
  CHECK(learned(true) < 1.5);
  CHECK(learned(true, true) == learned(true));
  CHECK(learned(false) > 2);
  CHECK(learned(false, true) < 1.5);
}

TEST_CASE("corun_learning: leaves out regions, stalls, other GPUs, and ends without a begin") {
  world w(2);
  const solo_table metrics = w.metrics(false);
  corun_learning learning(w.table, contention_interference(w.table, metrics, some_law()), 2,
                          watch_all());
  time_point now{};
  learning.end(0, 7, now);
  for (int i = 0; i < 200; ++i) { // in a region: slowed by its neighbour there
    batch_run a{0, 0, sm_count{32}, 0, 1}, b{0, 1, sm_count{32}, 1, 1};
    a.region = b.region = 1;
    learning.begin(a, now);
    learning.begin(b, now);
    now += 900us;
    learning.end(0, 0, now);
    learning.end(0, 1, now);
  }
  CHECK(learning.watched(0) + learning.watched(1) == 0);
  for (int i = 0; i < 200; ++i) { // held up by something else
    learning.begin({0, 0, sm_count{32}, 0, 1}, now);
    now += 50ms;
    learning.end(0, 0, now);
  }
  CHECK(learning.watched(0) == 0);
  for (int i = 0; i < 200; ++i) { // each alone on a GPU
    learning.begin({0, 0, sm_count{32}, 0, 1}, now);
    learning.begin({1, 1, sm_count{32}, 1, 1}, now);
    now += 600us;
    learning.end(0, 0, now);
    learning.end(1, 1, now);
  }
  learning.close_period();
  CHECK(learning.watched(0) == 200);
  CHECK(learning.watched(1) == 200);
  CHECK(learning.factors()[0] == corun_factors{});
  CHECK(learning.factors()[1] == corun_factors{});
}

TEST_CASE("corun_learning: factors stay within their bounds for random times") {
  world w(3);
  const solo_table metrics = w.metrics(false);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    corun_learning learning(w.table, contention_interference(w.table, metrics, some_law()), 1,
                            watch_all());
    time_point now{};
    for (int i = 0; i < 2000; ++i) {
      for (std::uint32_t p = 0; p < 3; ++p)
        if (p == 0 || random() % 2 == 0) learning.begin({0, p, sm_count{32}, p, 1}, now);
      now += from_us(300 + 900.0 * static_cast<double>(random() % 1000) / 1000);
      for (std::uint32_t p = 0; p < 3; ++p) learning.end(0, p, now);
      if (i % 100 == 99) learning.close_period();
    }
    for (const corun_factors& f : learning.factors())
      for (const double x : {f.sensitivity, f.pressure}) {
        CHECK(x >= corun_factors::least * (1 - 1e-9));
        CHECK(x <= corun_factors::most * (1 + 1e-9));
      }
  }
}

TEST_CASE("corun_learning: bad options are refused") {
  world w(1);
  const solo_table metrics = w.metrics(false);
  const contention_interference law(w.table, metrics, some_law());
  for (const corun_learning_options& bad :
       {corun_learning_options{0, 0.3, 0.03, 0.1, 100},
        corun_learning_options{0.5, -1, 0.03, 0.1, 100},
        corun_learning_options{0.5, 0.3, std::nan(""), 0.1, 100},
        corun_learning_options{0.5, 0.3, 0.03, HUGE_VAL, 100},
        corun_learning_options{0.5, 0.3, 0.03, 0.1, 0},
        corun_learning_options{0.5, 0.3, 0.03, 0.1, 100, -1ns}})
    CHECK_THROWS_AS(corun_learning(w.table, law, 1, bad), error);
}

} // namespace gsched::testing
