// SPDX-License-Identifier: Apache-2.0
#include "interference/chains.hpp"

#include <gsched/core/time.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/interference/stand_in_chain.hpp>
#include <gsched/interference/start_loss.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace gsched::testing {
namespace {

/// One kernel that takes nothing but its time, again and again.
kernel_chain again_and_again(double us, double blocks = 1) {
  return chain({kernel(us, blocks, 8)});
}

bool about(double a, double b, double part = 0.05) { return std::abs(a - b) <= part * std::abs(b); }

/// The slow-down of a graph with such a loss beside one, without any other cost.
double slowed_by_starts(const start_loss& lost, const kernel_chain& by, bool shared = false,
                        const replay_law& replays = only_placing) {
  kernel_chain c = again_and_again(2000);
  c.at_start = lost;
  return beside({&c, &by}, no_contention(), replays, {20'000, 4}, shared)[0];
}

} // namespace

TEST_CASE("start_loss: all of it long after another start, more on more SMs, none if unknown") {
  const start_loss lost{2.0};
  CHECK(lost.lost_us(start_loss::on_sms, 1e9) == 2);
  CHECK(lost.lost_us(4 * start_loss::on_sms, 1e9) == 4);
  CHECK(lost.lost_us(start_loss::on_sms, start_loss::refill_us) ==
        doctest::Approx(2 * (1 - std::exp(-1))));
  CHECK(lost.lost_us(start_loss::on_sms, 0) == 0);
  CHECK(start_loss{}.lost_us(1000, 1e9) == 0);
  CHECK(!start_loss{}.known());
  CHECK(start_loss{0.0}.known());
  for (double t = 0; t < 50; t += 0.1) REQUIRE(lost.lost_us(10, t + 0.1) >= lost.lost_us(10, t));
}

TEST_CASE("start_loss: each start of a neighbour costs it, the less the sooner after the last") {
  const double on_these = std::sqrt(sms / start_loss::on_sms);
  CHECK(slowed_by_starts({0.0}, again_and_again(50)) == 1);
  for (const double period : {2., 5., 20., 50.}) {
    const double each = 3 * on_these * (1 - std::exp(-period / start_loss::refill_us));
    // Of the time that it runs, which the losses make longer.
    const double expected = 1 / (1 - each / period);
    CHECK(about(slowed_by_starts({3.0}, again_and_again(period)) - 1, expected - 1));
  }
}

TEST_CASE("start_loss: blocks of the starting kernel do not matter, its graph's pressure does") {
  kernel_chain by = again_and_again(50, 16);
  const double usual = slowed_by_starts({3.0}, again_and_again(50)) - 1;
  CHECK(slowed_by_starts({3.0}, by) - 1 == usual);
  by.factors.pressure = 2;
  CHECK(about(slowed_by_starts({3.0}, by) - 1, 2 * usual));
}

TEST_CASE("start_loss: on shared SMs it is not used") {
  const kernel_chain by = again_and_again(50);
  const replay_law replays{0, 1};
  CHECK(slowed_by_starts({3.0}, by, true, replays) == slowed_by_starts({}, by, true, replays));
  CHECK(slowed_by_starts({}, by, true, replays) > 1.01);
}

TEST_CASE("start_loss: a kernel's is estimated from its waits for instructions, once it runs long "
          "enough") {
  warp_waits w;
  CHECK(!start_loss::of(w, 100).known());
  w.executing = 1;
  CHECK(*start_loss::of(w, 100).us == 0);
  w.instructions = 0.1;
  const double known = *start_loss::of(w, 100).us;
  CHECK(known > 0.5);
  CHECK(*start_loss::of(w, start_loss::refill_us).us == doctest::Approx(known));
  CHECK(*start_loss::of(w, start_loss::refill_us / 3).us == doctest::Approx(known / 3));
  w.instructions = 0.2;
  CHECK(*start_loss::of(w, 100).us == doctest::Approx(2 * known));
}

TEST_CASE(
    "start_loss: without waits a start costs more the more blocks the starting kernel has, and "
    "busy SMs hide it") {
  const replay_law starts{0, 0.5};
  CHECK(starts.lost_us(500) == doctest::Approx(1));
  CHECK(starts.lost_us(1500) == doctest::Approx(2));
  CHECK(starts.lost_us(1e6) == starts.lost_us(2000));
  kernel_chain c = chain({kernel(100, 1, 4)});
  c.at_start = {};
  const auto slow = [&] {
    const kernel_chain many = chain({kernel(10, 500, 4)});
    return beside({&c, &many}, no_contention(), starts, {4000, 4}, false)[0];
  };
  CHECK(slow() == doctest::Approx(1.1).epsilon(0.015));
  c.kernels[0].takes.of(resource::fma) = 0.8;
  CHECK(slow() == doctest::Approx(1 + 0.1 * (1 - 0.8 * 0.8 * 0.8)).epsilon(0.015));
}

TEST_CASE("start_loss: where it was not measured each kernel loses what is estimated for it") {
  const kernel_chain by = again_and_again(50);
  kernel_chain c = again_and_again(2000);
  c.kernels[0].takes.waits.instructions = 0.3;
  const auto slow = [&] {
    return beside({&c, &by}, no_contention(), only_placing, {20'000, 4}, false)[0];
  };
  c.at_start = start_loss::of(c.kernels[0].takes.waits, 2000);
  const double given = slow();
  CHECK(given > 1.01);
  c.at_start = {};
  CHECK(slow() == given);
  c.kernels[0].takes.waits.instructions = 0.1;
  CHECK(slow() < given);
}

TEST_CASE("start_loss: a kernel ends even if each start costs more than the time between two") {
  kernel_chain by = again_and_again(2, 2000);
  by.factors.pressure = corun_factors::most;
  for (const double common_work : {0., 1.})
    for (const start_loss each : {start_loss{}, start_loss{4.0}, start_loss{start_loss::most}}) {
      CAPTURE(common_work);
      CAPTURE(each.us.value_or(-1));
      kernel_chain c = again_and_again(20);
      c.kernels[0].common_work = common_work;
      c.at_start = each;
      const double slow =
          beside({&c, &by, &by}, no_contention(), replay_law{0.6, 0.25}, {20'000, 4}, false)[0];
      CHECK(slow > 2);
      CHECK(slow < 12);
    }
}

TEST_CASE("start_loss: chains have that of their solo metrics") {
  solo_metrics m{"a", 1, from_us(100), 0.2, 0.1, 0.5};
  CHECK(!stand_in_chain(m, sm_count{132}).at_start.known());
  m.at_start = {0.25};
  CHECK(stand_in_chain(m, sm_count{132}).at_start == start_loss{0.25});
}

} // namespace gsched::testing
