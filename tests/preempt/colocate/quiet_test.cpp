// SPDX-License-Identifier: Apache-2.0
#include <gsched/preempt/colocate/quiet.hpp>
#include <gsched/preempt/colocate/trials.hpp>

#include <doctest/doctest.h>

#include <cstdint>

namespace gsched {
namespace {

kernel_variant kernel(std::int64_t time, std::int64_t block, std::uint32_t blocks,
                      std::uint32_t level = 4) {
  kernel_variant k;
  k.kernel_time = duration{time};
  k.block_time = duration{block};
  k.blocks = blocks;
  k.level = level;
  k.threads_per_block = 256;
  return k;
}

quiet_options options() {
  quiet_options o;
  o.sms = sm_count{100};
  o.gap = duration{1000};
  return o;
}

TEST_CASE("co-runners have the SMs that are idle, and no others") {
  const quiet_options o = options();
  const kernel_variant real = kernel(11'000, 10'000, 60), corunner = kernel(9000, 2000, 500);
  CHECK(quiet_blocks({real, 0}, {corunner, 0}, o) == 40);
  CHECK(quiet_blocks({kernel(11'000, 10'000, 100), 0}, {corunner, 0}, o) == 0);
  CHECK(quiet_blocks({kernel(11'000, 10'000, 250), 0}, {corunner, 0}, o) == 0);
  CHECK(quiet_blocks({real, 0}, {kernel(9000, 2000, 7), 0}, o) == 7);
}

TEST_CASE("a co-runner's block ends before the real-time kernel does, both without the gap") {
  const quiet_options o = options();
  const kernel_variant real = kernel(11'000, 10'000, 60); // 10 us of its own, of which 9 count
  CHECK(quiet_blocks({real, 0}, {kernel(20'000, 9999, 500), 0}, o) == 40);
  CHECK(quiet_blocks({real, 0}, {kernel(20'000, 10'000, 500), 0}, o) == 0);
}

TEST_CASE("both move no more than the device does in the real-time kernel's own time") {
  quiet_options o = options();
  o.bytes_per_ns = 10; // 100 000 bytes in its 10 us
  const kernel_variant real = kernel(11'000, 10'000, 60), corunner = kernel(9000, 2000, 100);
  CHECK(quiet_blocks({real, 0}, {corunner, 100'000}, o) == 40);
  CHECK(quiet_blocks({real, 80'000}, {corunner, 100'000}, o) == 20);
  CHECK(quiet_blocks({real, 99'500}, {corunner, 100'000}, o) == 0);
  CHECK(quiet_blocks({real, 200'000}, {corunner, 100'000}, o) == 0);
  CHECK(quiet_blocks({real, 200'000}, {corunner, 0}, o) == 40); // one without memory traffic
  o.bytes_per_ns = 0;
  CHECK(quiet_blocks({real, 200'000}, {corunner, 100'000}, o) == 40);
}

TEST_CASE("a kernel that is slower as a part than by itself is left alone") {
  const quiet_options o = options();
  const kernel_variant real = kernel(10'200, 10'000, 60), corunner = kernel(9000, 2000, 100);
  CHECK(quiet_blocks({real, 0, duration{10'000}}, {corunner, 0}, o) == 40);
  CHECK(quiet_blocks({real, 0, duration{9'999}}, {corunner, 0}, o) == 0);
  CHECK(quiet_blocks({real, 0, duration{20'000}}, {corunner, 0}, o) == 40);
}

TEST_CASE("a pair that was slow in the middle one of its tries is not chosen again") {
  pad_trials t(2, 3, 0.03);
  for (const double s : {0.5, 0.01, 0.02, 0.4}) {
    t.learn(1, 2, s);
    CHECK(t.may(1, 2)); // not yet known
    CHECK(t.open(1, 2));
  }
  t.learn(1, 2, 0.0);
  CHECK(!t.open(1, 2));
  CHECK(t.may(1, 2)); // two of five may be chance
  CHECK(t.slow_down(1, 2) == doctest::Approx(0.02));
  for (const double s : {0.5, 0.01, 0.031, 0.4, 0.0}) t.learn(1, 1, s);
  CHECK(!t.may(1, 1));
  t.learn(1, 1, -1); // too late
  CHECK(!t.may(1, 1));
  CHECK(t.may(0, 1));
  CHECK(t.open(0, 2));
}

} // namespace
} // namespace gsched
