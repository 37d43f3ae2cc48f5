// SPDX-License-Identifier: Apache-2.0
#include <gsched/notify/flow_control.hpp>

#include <gsched/core/error.hpp>
#include <gsched/notify/grouping.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using namespace gsched;

TEST_CASE("as many block groups are let out as half of the slots, and no more") {
  flow_control flow(64);
  for (int kernels = 0; kernels < 4; ++kernels) CHECK(flow.try_reserve(words_of(8 * 16)));
  CHECK(flow.reserved() == 64);
  CHECK_FALSE(flow.try_reserve(1));
  CHECK(flow.try_reserve(0));
  CHECK(flow.reserved() == 64);
  flow.release(16);
  CHECK(flow.try_reserve(16));
  CHECK(flow.total() == 80);
  CHECK(flow.violations() == 0);
}

TEST_CASE("a huge request is refused, not wrapped round") {
  flow_control flow(16);
  CHECK(flow.try_reserve(1));
  CHECK_FALSE(flow.try_reserve(~std::uint64_t{0}));
  CHECK(flow.reserved() == 1);
}

TEST_CASE("what was withdrawn before it began leaves no trace") {
  flow_control flow(16);
  CHECK(flow.try_reserve(10));
  CHECK(flow.try_reserve(6));
  flow.cancel(6);
  flow.release(10);
  CHECK(flow.reserved() == 0);
  CHECK(flow.total() == 10);
}

TEST_CASE("returning more than was reserved is counted and changes nothing") {
  flow_control flow(16);
  CHECK(flow.try_reserve(4));
  flow.release(5);
  flow.cancel(5);
  CHECK(flow.violations() == 2);
  CHECK(flow.reserved() == 4);
  CHECK(flow.total() == 4);
}

TEST_CASE("a segment that the ring can never hold is named when it is loaded") {
  const flow_control flow(16);
  CHECK_NOTHROW(flow.expect_fits(16));
  std::string line;
  try {
    flow.expect_fits(18);
  } catch (const error& e) {
    CHECK((e.code() == errc::too_small));
    line = e.what();
  }
  CHECK(line == "notification ring of 16 slots, expected at least 18 for one segment");
}
