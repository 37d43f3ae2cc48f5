// SPDX-License-Identifier: Apache-2.0
#include <gsched/serving/learning/violation_margins.hpp>

#include <doctest/doctest.h>

namespace gsched::testing {

TEST_CASE("a margin rises in steps up to its bound, and falls slowly without violations") {
  violation_margins m(2, {0.01, 100, 1.5, 2, 0.5});
  CHECK(m.is_too_many(1000, 11));
  CHECK_FALSE(m.is_too_many(1000, 10));
  CHECK_FALSE(m.is_too_many(99, 99)); // too few to tell
  CHECK(m.raise(0));
  CHECK(m.factors()[0] == 1.5);
  CHECK(m.factors()[1] == 1);
  CHECK(m.raise(0));
  CHECK(m.factors()[0] == 2);
  CHECK_FALSE(m.raise(0));
  m.lower(0, 1000, 6); // more than half of what is allowed
  m.lower(0, 99, 0);
  CHECK(m.factors()[0] == 2);
  m.lower(0, 1000, 5);
  CHECK(m.factors()[0] == 1.5);
  CHECK(m.raise(0));
  m.lower(0, 1000, 0); // it fell too far before
  CHECK(m.factors()[0] == 1.75);
}

TEST_CASE("options of margins are checked") {
  CHECK_THROWS_AS(violation_margins(1, {-0.1}), error);
  CHECK_THROWS_AS(violation_margins(1, {1.1}), error);
  CHECK_THROWS_AS(violation_margins(1, {0.01, 1, 0.9}), error);
  CHECK_THROWS_AS(violation_margins(1, {0.01, 1, 1.2, 0.9}), error);
  CHECK_THROWS_AS(violation_margins(1, {0.01, 1, 1.2, 2, -1}), error);
}

TEST_CASE("no margin rises for what the host may have added") {
  violation_margins m(2);
  CHECK_FALSE(m.raise(0, 0.11));
  CHECK(m.factors()[0] == 1);
  CHECK(m.raise(0, 0.09));
  CHECK(m.factors()[0] > 1);
  CHECK(m.factors()[1] == 1);
  margin_options o;
  o.host = 1.5;
  CHECK_THROWS_AS(violation_margins(1, o), error);
}

} // namespace gsched::testing
