// SPDX-License-Identifier: Apache-2.0
#include "interference/chains.hpp"

#include <gsched/interference/detail/replay_order.hpp>
#include <gsched/interference/kernel_chain.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace gsched::testing {
namespace {

using detail::replay_order;

std::vector<double> placed(const kernel_chain& a, const kernel_chain& b) {
  return beside({&a, &b}, no_contention(), only_placing);
}

/// One kernel, then `n` that wait for it alone, then one that waits for these.
kernel_chain fork(std::uint32_t n, double us, double blocks, double nth) {
  kernel_chain c;
  c.sms = sms;
  std::vector<std::uint32_t> all;
  c.kernels.push_back(kernel(1, 1, nth));
  c.after.push_back({});
  for (std::uint32_t i = 1; i <= n; ++i) {
    c.kernels.push_back(kernel(us, blocks, nth));
    c.after.push_back({0});
    all.push_back(i);
  }
  c.kernels.push_back(kernel(1, 1, nth));
  c.after.push_back(all);
  return c;
}

} // namespace

TEST_CASE("operations of a replay start after all that they wait for, each once") {
  std::mt19937_64 random(3);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int time = 0; time < 300; ++time) {
    kernel_chain c;
    const std::size_t n = 1 + below(12);
    for (std::size_t i = 0; i < n; ++i) {
      c.kernels.push_back(kernel(1, 1, 1));
      c.after.emplace_back();
      for (std::size_t k = 0; k < i; ++k)
        if (below(4) == 0) c.after.back().push_back(static_cast<std::uint32_t>(k));
    }
    const bool branches = time % 3 != 0;
    replay_order order(c, branches, 5);
    CHECK(order.due_us() == 5);
    double now = 5;
    for (int replay = 0; replay < 3; ++replay) {
      std::vector<bool> ended(n, false);
      std::vector<std::size_t> run;
      std::size_t starts = 0, most = 0;
      for (bool last = false; !last;) {
        while (order.due_us() <= now) {
          const std::size_t at = order.take();
          REQUIRE(at < n);
          REQUIRE_FALSE(ended[at]);
          REQUIRE(std::find(run.begin(), run.end(), at) == run.end());
          if (branches)
            for (const std::uint32_t before : c.after[at]) REQUIRE(ended[before]);
          else
            REQUIRE((at == 0 || ended[at - 1]));
          run.push_back(at);
          ++starts;
        }
        most = std::max(most, run.size());
        if (run.empty()) {
          REQUIRE(order.due_us() < replay_order::never);
          now = order.due_us();
          continue;
        }
        const std::size_t which = below(run.size());
        const std::size_t at = run[which];
        run.erase(run.begin() + static_cast<std::ptrdiff_t>(which));
        ended[at] = true;
        last = order.end(at, now + static_cast<double>(below(3)));
        REQUIRE(last == std::all_of(ended.begin(), ended.end(), [](bool e) { return e; }));
      }
      CHECK(starts == n);
      if (!branches) CHECK(most == 1);
      now = std::max(now, order.due_us());
    }
  }
}

TEST_CASE("a fork has as many lanes as branches") {
  CHECK(replay_order(fork(3, 1, 1, 1), true, 0).width() == 3);
  CHECK(replay_order(fork(3, 1, 1, 1), false, 0).width() == 1);
  kernel_chain none = fork(3, 1, 1, 1);
  none.after.clear();
  CHECK(replay_order(none, true, 0).width() == 1);
}

TEST_CASE("branches run at the same time, alone and beside others") {
  // Four branches of a quarter of the SMs each; the neighbour needs one block of one SM.
  const kernel_chain narrow = fork(4, 50, sms / 4, 1);
  kernel_chain tiny;
  tiny.sms = sms;
  tiny.kernels = {kernel(5, 1, 8)};
  CHECK(placed(narrow, tiny)[0] < 1.2); // over a replay alone, which takes 52 us and not 202
  kernel_chain full = tiny;
  full.kernels = {kernel(50, sms, 1)};
  CHECK(placed(narrow, full)[0] > 1.4); // in turns, over those 52 us
  // Other graphs wait for each of the branches that started before them.
  const kernel_chain wide = fork(3, 50, sms, 1);
  kernel_chain in_turn = wide;
  in_turn.after.clear();
  const double behind_branches = placed(tiny, wide)[0], behind_one = placed(tiny, in_turn)[0];
  CHECK(behind_one > 8);
  CHECK(behind_branches > 2 * behind_one);
}

TEST_CASE("dependencies in a sequence are a sequence") {
  kernel_chain plain;
  plain.sms = sms;
  plain.gap_us = 0.5;
  for (int i = 0; i < 6; ++i) plain.kernels.push_back(kernel(10 + i, 40 - 5 * i, 2));
  kernel_chain same = plain;
  for (std::uint32_t i = 0; i < 6; ++i)
    same.after.push_back(i == 0 ? std::vector<std::uint32_t>{} : std::vector{i - 1});
  kernel_chain other = plain;
  std::reverse(other.kernels.begin(), other.kernels.end());
  CHECK(placed(same, other)[0] == doctest::Approx(placed(plain, other)[0]).epsilon(0.03));
  CHECK(placed(same, other)[1] == doctest::Approx(placed(plain, other)[1]));
}

TEST_CASE("the chain of a profile has branches where the profile does") {
  profile p;
  p.model = "m";
  p.sms = sm_count{132};
  profile_operation o;
  o.work.expected = from_us(5);
  o.work.launch.block = {128, 1, 1};
  p.operations = {o, o, o};
  p.operations[1].after = {0};
  p.operations[2].after = {1};
  CHECK_FALSE(chain_of(p, limits_for(9, 0), {}).has_branches());
  p.operations[2].after = {0};
  CHECK(chain_of(p, limits_for(9, 0), {}).after ==
        std::vector<std::vector<std::uint32_t>>{{}, {0}, {0}});
}

} // namespace gsched::testing
