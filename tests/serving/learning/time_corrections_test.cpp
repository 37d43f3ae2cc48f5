// SPDX-License-Identifier: Apache-2.0
#include <gsched/serving/learning/time_corrections.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace gsched::testing {
namespace {

using namespace std::chrono_literals;

/// Records batches of which one in ten takes 10 times as long as the others.
void run_batches(time_corrections& c, std::size_t model, sm_count sms, int batches, double share,
                 int slow_in_ten = 0) {
  for (int i = 0; i < batches; ++i) {
    const double times = i % 10 < slow_in_ten ? 10 * share : share;
    c.record(model, sms, duration{static_cast<std::int64_t>(times * 2e6)}, 2ms);
  }
}

latency_table small_table() {
  std::vector<latency_row> rows;
  for (const std::uint32_t s : {8u, 16u})
    for (const std::uint32_t b : {1u, 4u})
      for (const char* name : {"a", "b"})
        rows.push_back({name, b, sm_count{s}, 1ms * b * 16 / static_cast<int>(s)});
  return latency_table(rows);
}

} // namespace

TEST_CASE("a correction is the quantile of measured over planned time, of the worst size") {
  time_corrections c(3, {true, 0.8, 10, 0.05, 0.5, 4});
  CHECK_FALSE(c.close_period());
  run_batches(c, 0, sm_count{8}, 100, 1.6, 1); // one in ten is an outlier
  run_batches(c, 1, sm_count{8}, 1000, 0.7);
  run_batches(c, 1, sm_count{16}, 20, 1.3);
  run_batches(c, 2, sm_count{8}, 50, 1.04); // noise
  CHECK(c.close_period());
  CHECK(c.factors()[0] == doctest::Approx(1.6).epsilon(0.01));
  CHECK(c.factors()[1] == doctest::Approx(1.3).epsilon(0.01)); // though few batches ran there
  CHECK(c.factors()[2] == 1);
  run_batches(c, 0, sm_count{8}, 100, 100);
  CHECK(c.close_period());
  CHECK(c.factors()[0] == doctest::Approx(100).epsilon(0.01));
  CHECK(c.planned()[0] == 4); // the bound
  CHECK(c.factors()[1] == doctest::Approx(1.3).epsilon(0.01));
}

TEST_CASE("what may be the host's time corrects nothing") {
  time_corrections c(1, {true, 0.95, 10, 0.05, 0.5, 4});
  const auto run = [&](duration took, duration host) {
    for (int i = 0; i < 100; ++i) c.record(0, sm_count{8}, took, 2ms, host);
    return c.close_period();
  };
  CHECK_FALSE(run(20ms, 18ms)); // 2 to 20 ms
  CHECK_FALSE(run(20ms, 19ms));
  CHECK(run(20ms, 16ms)); // 4 ms at least
  CHECK(c.factors()[0] == doctest::Approx(2).epsilon(0.01));
  CHECK_FALSE(run(6ms, 3ms)); // from 3 to 6 ms: as planned with the correction
  CHECK(c.factors()[0] == doctest::Approx(2).epsilon(0.01));
  CHECK(run(3ms, 1ms)); // 3 ms at most: falls half of the way
  CHECK(c.factors()[0] == doctest::Approx(1.75).epsilon(0.01));
}

TEST_CASE("too few batches change nothing, and count with those of the next period") {
  time_corrections c(1, {true, 0.95, 10, 0.05, 0.5, 4});
  run_batches(c, 0, sm_count{8}, 6, 2);
  run_batches(c, 0, sm_count{16}, 6, 2);
  CHECK_FALSE(c.close_period());
  run_batches(c, 0, sm_count{8}, 4, 2);
  CHECK(c.close_period());
  CHECK(c.factors()[0] == doctest::Approx(2).epsilon(0.01));
  CHECK_FALSE(c.close_period()); // those of 16 SMs still wait
}

TEST_CASE("what learned interference explains does not correct the table as well") {
  time_corrections c(2, {true, 0.95, 10, 0.05, 0, 4}); // a correction never falls by itself
  run_batches(c, 0, sm_count{8}, 10, 1.6);
  run_batches(c, 1, sm_count{8}, 10, 1.6);
  CHECK(c.close_period(std::vector<double>{1.25, 1}));
  CHECK(c.factors()[0] == doctest::Approx(1.6 / 1.25).epsilon(0.01));
  CHECK(c.factors()[1] == doctest::Approx(1.6).epsilon(0.01));
  // Later ones are measured by the new plan; what is explained late lowers the factor at once.
  CHECK(c.close_period(std::vector<double>{1, 1.6}));
  CHECK(c.factors()[0] == doctest::Approx(1.28).epsilon(0.01));
  CHECK(c.factors()[1] == 1);
  // Less interference: batches were planned too long, and the same times are late by the new plan.
  run_batches(c, 1, sm_count{8}, 10, 0.9);
  CHECK(c.close_period(std::vector<double>{1, 0.75}));
  CHECK(c.factors()[1] == doctest::Approx(1.2).epsilon(0.01));
}

TEST_CASE("a correction falls slowly, and slower each time that it fell too far") {
  time_corrections c(1, {true, 0.95, 10, 0.05, 0.5, 4});
  const auto period = [&](double share) {
    run_batches(c, 0, sm_count{8}, 10, share);
    static_cast<void>(c.close_period());
    return c.factors()[0];
  };
  CHECK(period(2) == doctest::Approx(2).epsilon(0.01));
  CHECK(period(0.5) == doctest::Approx(1.5).epsilon(0.01)); // half of the way to 1
  CHECK(period(0.5) == doctest::Approx(1.25).epsilon(0.01));
  CHECK(period(2) == doctest::Approx(2).epsilon(0.01));
  CHECK(period(0.5) == doctest::Approx(1.75).epsilon(0.01)); // a quarter of it
  CHECK(period(2) == doctest::Approx(2).epsilon(0.01));
  CHECK(period(3) == doctest::Approx(3).epsilon(0.01)); // a second rise says nothing of the fall
  CHECK(period(1) == doctest::Approx(2.75).epsilon(0.01));
  double last = 3;
  for (int i = 0; i < 200; ++i) {
    const double now = period(0.9);
    CHECK(now <= last);
    CHECK(now >= 1);
    last = now;
  }
  CHECK(last == 1);
}

TEST_CASE("nothing is learned where it is not wanted; options are checked") {
  time_corrections c(1, {false});
  run_batches(c, 0, sm_count{8}, 1000, 3);
  CHECK_FALSE(c.close_period());
  CHECK(c.factors()[0] == 1);
  CHECK_THROWS_AS(time_corrections(1, {true, 0}), error);
  CHECK_THROWS_AS(time_corrections(1, {true, 1.1}), error);
  CHECK_THROWS_AS(time_corrections(1, {true, 0.5, 1, -1}), error);
  CHECK_THROWS_AS(time_corrections(1, {true, 0.5, 1, 0, 2}), error);
  CHECK_THROWS_AS(time_corrections(1, {true, 0.5, 1, 0, 1, 0.5}), error);
}

TEST_CASE("a corrected table has the model's latencies times the factor") {
  const latency_table t = small_table();
  const latency_table more = with_corrections(t, std::vector<double>{1.5, 1});
  for (const std::uint32_t b : {1u, 2u, 4u})
    for (const std::uint32_t s : {8u, 12u, 16u}) {
      const auto times = [&](std::size_t m) {
        return static_cast<double>(more.latency(m, b, sm_count{s}).count()) /
               static_cast<double>(t.latency(m, b, sm_count{s}).count());
      };
      CHECK(times(0) == doctest::Approx(1.5));
      CHECK(times(1) == 1);
    }
  CHECK(with_corrections(t, {}).latency(0, 1, sm_count{8}) == 2ms);
}

TEST_CASE("plans take no correction that leaves no room for two batches within the SLO") {
  const latency_table t = small_table(); // 1 ms on 16 SMs
  const std::vector<duration> slos{6ms, 1ms};
  const std::vector<gpu_shape> shapes{{sm_count{16}, sm_count{8}}, {sm_count{4}, sm_count{4}}};
  const std::vector<double> room = room_of(t, slos, shapes);
  CHECK(room[0] == 6);
  CHECK(room[1] == 1);
  time_corrections c(2, {true, 0.95, 50, 0.05, 0.25, 4}, room);
  run_batches(c, 0, sm_count{8}, 100, 3.5);
  CHECK(c.close_period());
  CHECK(c.factors()[0] == doctest::Approx(3.5).epsilon(0.01));
  CHECK(c.planned()[0] == doctest::Approx(2.97));
  CHECK(c.planned()[1] == 1);
  CHECK_FALSE(c.is_too_slow(0));
}

TEST_CASE("a model too slow for its SLO on a whole GPU is planned without a correction") {
  time_corrections c(1, {true, 0.95, 50, 0.05, 0.25, 4}, std::vector<double>{6.0});
  run_batches(c, 0, sm_count{8}, 100, 10);
  CHECK(c.close_period());
  CHECK(c.is_too_slow(0));
  CHECK(c.factors()[0] == doctest::Approx(10).epsilon(0.01)); // how slow it is, is known
  CHECK(c.planned()[0] == 1);
  run_batches(c, 0, sm_count{8}, 100, 8); // still: it falls slowly
  CHECK(c.close_period());
  CHECK(c.is_too_slow(0));
  CHECK(c.factors()[0] == doctest::Approx(9.5).epsilon(0.01));
  CHECK_FALSE(c.close_period()); // nothing ran: nothing is known
  CHECK(c.is_too_slow(0));
  run_batches(c, 0, sm_count{8}, 100, 1); // fast again: it is served at once, and then falls
  CHECK(c.close_period());
  CHECK_FALSE(c.is_too_slow(0));
  CHECK(c.factors()[0] == doctest::Approx(6 - 0.25 * 5).epsilon(0.01));
  CHECK(c.planned()[0] == doctest::Approx(0.99 * 6 / 2));
}

} // namespace gsched::testing
