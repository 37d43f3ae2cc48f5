// SPDX-License-Identifier: Apache-2.0
#include <gsched/gsched.hpp>
#include <gsched/interference.hpp>
#include <gsched/partition.hpp>
#include <gsched/serving.hpp>
#include <gsched/sim.hpp>
#include <gsched/workload.hpp>

#include <doctest/doctest.h>

// A .cu file can include the whole host library.
TEST_CASE("a .cu file can include everything") {
  CHECK(gsched::deficit_over<gsched::srpt>::name == "srpt+deficit");
  CHECK(gsched::priority<gsched::edf, gsched::fifo>::name == "priority<edf,fifo>");
  CHECK(gsched::sim::h200().sms.count() == 132);
}
