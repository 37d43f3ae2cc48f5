// SPDX-License-Identifier: Apache-2.0
#include "interference/chains.hpp"

#include <gsched/interference/common_work.hpp>
#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/job/operation.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <utility>

namespace gsched::testing {
namespace {

operation timed(std::uint32_t blocks,
                std::initializer_list<std::pair<std::uint32_t, double>> us_by_sms) {
  operation op;
  op.launch.grid = {blocks, 1, 1};
  op.expected = from_us(10);
  for (const auto& [n, us] : us_by_sms) op.by_sms.push_back({sm_count{n}, from_us(us)});
  return op;
}

kernel_chain persistent(double blocks, double common_work, double early = 0) {
  chain_kernel k = kernel(100, blocks, 1);
  k.common_work = common_work;
  k.early = early;
  return chain({k});
}

/// How much it is slowed if others hold so many SMs.
double without(double held, double blocks, double common_work) {
  const kernel_chain own = persistent(blocks, common_work), others = holding(held, 1);
  return beside({&own, &others}, no_contention(), only_placing)[0];
}

} // namespace

TEST_CASE("a kernel is persistent if its time grows by no more than its blocks outnumber the SMs") {
  const auto power = [](const operation& op) { return common_work_of(op, 1, 132); };
  CHECK(power(timed(132, {{64, 20.625}, {96, 13.75}})) == doctest::Approx(1));
  CHECK(power(timed(132, {{66, 14.142}, {96, 12}})) == doctest::Approx(0.5).epsilon(0.001));
  CHECK(power(timed(132, {{64, 20}, {96, 18}})) == 0); // a second wave on 96 SMs
  CHECK(power(timed(132, {{64, 29}, {96, 13}})) == 0); // a third one on 64
  CHECK(power(timed(132, {{64, 9}, {96, 9}})) == doctest::Approx(0.05));
  CHECK(power(timed(80, {{64, 12}, {96, 10}})) > 0.8); // 96 SMs hold all of its blocks
  CHECK(power(timed(80, {{64, 19}, {96, 10}})) == 0);
}

TEST_CASE("whether a kernel is persistent is not known where its time on fewer SMs does not tell") {
  const auto power = [](const operation& op, double per_sm = 1) {
    return common_work_of(op, per_sm, 132);
  };
  const operation one = timed(132, {{64, 16}, {96, 12}});
  CHECK(power(one) > 0);
  CHECK(power(one, 2) == 0); // an SM holds two: fewer SMs have more blocks each
  CHECK(power(one, 0) == 0);
  CHECK(power(timed(133, {{64, 16}, {96, 12}})) == 0); // more than one wave anyway
  CHECK(power(timed(132, {})) == 0);
  CHECK(power(timed(132, {{32, 16}})) == 0);
  CHECK(power(timed(64, {{64, 10}, {96, 10}})) == 0); // it fits on both
  operation copy = one;
  copy.kind = operation_kind::memcpy;
  CHECK(power(copy) == 0);
}

TEST_CASE("a persistent kernel loses the SMs that others hold, and no second wave") {
  CHECK(without(4, sms, 0) == doctest::Approx(2).epsilon(0.02));
  CHECK(without(4, sms, 1) == doctest::Approx(sms / (sms - 4)).epsilon(0.02));
  CHECK(without(4, sms, 0.5) == doctest::Approx(std::sqrt(sms / (sms - 4))).epsilon(0.02));
  CHECK(without(4, sms - 4, 1) == doctest::Approx(1).epsilon(0.02)); // which it does not need
  // On fewer SMs than half, none of its blocks is faster.
  for (const double held : {8.0, 12.0, 15.0})
    CHECK(without(held, sms, 0.5) ==
          doctest::Approx(std::sqrt(2) * (sms / 2) / (sms - held)).epsilon(0.02));
}

TEST_CASE("a persistent kernel alone takes its time, however early some of its blocks end") {
  const kernel_chain copy = chain({kernel(100, 0, 1)});
  for (const double early : {0.0, 0.1, 0.3, 0.45})
    for (const double power : {0.05, 1.0}) {
      const kernel_chain own = persistent(sms, power, early);
      CHECK(beside({&own, &copy}, no_contention(), only_placing)[0] ==
            doctest::Approx(1).epsilon(0.01));
    }
}

TEST_CASE("blocks of a persistent kernel keep their SMs until its queue is empty") {
  const kernel_chain small = chain({kernel(1, sms, 8)}), few = chain({kernel(1, 2, 1)});
  constexpr replay_window slowest{4000, 4, 4'000'000, 1};
  const auto longest = [&](const kernel_chain& own, const kernel_chain& other) {
    return beside({&own, &other}, no_contention(), only_placing, slowest)[0];
  };
  CHECK(longest(small, persistent(sms, 1)) > 90);
  CHECK(longest(few, persistent(sms - 4, 1)) < 1.1); // beside it there is room
  const kernel_chain quarter = chain({kernel(2, sms / 4, 1)});
  const auto mean = [&](double early) {
    const kernel_chain other = persistent(sms, 1, early);
    return beside({&quarter, &other}, no_contention(), only_placing)[0];
  };
  CHECK(mean(0.4) < mean(0) / 2); // the first blocks find it empty long before the last
}

TEST_CASE("an endless kernel never ends, persistent or not") {
  kernel_chain probe = persistent(4, 1);
  probe.endless = true;
  const kernel_chain own = persistent(sms, 1);
  CHECK(beside({&own, &probe}, no_contention(), only_placing)[0] ==
        doctest::Approx(without(4, sms, 1)).epsilon(0.001));
}

TEST_CASE("a start costs a persistent kernel the time of its blocks that still run") {
  constexpr replay_law costly{0, 0.2};
  const kernel_chain starts = chain({kernel(0.5, 1, 8), kernel(0.5, 1, 8)});
  for (const double early : {0.0, 0.4}) {
    const kernel_chain own = persistent(sms, 0.7, early), others = persistent(sms, 0, early);
    const auto slow = [&](const kernel_chain& c) {
      return beside({&c, &starts}, no_contention(), costly, {20'000, 4})[0];
    };
    CHECK(slow(own) >= 1);
    CHECK(slow(own) < slow(others) + 0.3);
  }
}

TEST_CASE("beside persistent kernels every graph goes on, and is replayed the same again") {
  const kernel_chain a = persistent(sms, 0.4, 0.2), b = persistent(sms - 3, 0.9, 0.1),
                     c = chain({kernel(3, 2 * sms, 2), kernel(5, 5, 4)});
  const auto slow = beside({&a, &b, &c}, {}, {});
  for (const double s : slow) {
    CHECK(s >= 1);
    CHECK(s < 60);
  }
  CHECK(beside({&a, &b, &c}, {}, {}) == slow);
}

} // namespace gsched::testing
