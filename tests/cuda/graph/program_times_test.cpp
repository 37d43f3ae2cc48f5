// SPDX-License-Identifier: Apache-2.0
#include "graph/measure/measure.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

namespace gsched::cuda {
namespace {

using namespace std::chrono_literals;
using readings = std::vector<std::vector<std::uint64_t>>;

TEST_CASE("a time is the difference of two readings less the cost of a reading and of a kernel") {
  // A reading costs 1500 ns: an operation that does nothing ends 3000 ns after the previous one.
  const readings runs{{1000, 4000, 17000}, {2000, 5000, 18000}, {9000, 12000, 99000}};
  const std::vector<duration> times = times_of(runs, 1500ns, false);
  REQUIRE(times.size() == 2);
  CHECK(times[0] == least_operation);
  CHECK(times[1] == 10000ns + least_operation); // the median: the third run is an outlier
}

TEST_CASE("for a coarse clock the mean is used, which is finer than its steps") {
  const readings runs{{0, 3000}, {0, 4000}, {0, 4000}, {0, 4000}};
  CHECK(times_of(runs, 1000ns, true)[0] == 3750ns - 2000ns + least_operation);
}

TEST_CASE("no operation takes less than the minimum, whatever the clock says") {
  const readings runs{{5000, 5100}, {5000, 4900}, {5000, 5000}};
  CHECK(times_of(runs, 1500ns, false)[0] == least_operation);
}

TEST_CASE("times are scaled to the time of the whole graph, within a gap for each") {
  std::vector<duration> times{10us, 30us, 60us};
  fit(times, 50us);
  CHECK(times == std::vector<duration>{5us, 15us, 30us});
  fit(times, 52us);
  CHECK(times == std::vector<duration>{5200ns, 15600ns, 31200ns});
  fit(times, 500us); // most of it is the launch
  CHECK(times[0] == duration{5200 * 565 / 520});
  times = {10us, 30us};
  fit(times, 0us); // unknown
  CHECK(times == std::vector<duration>{10us, 30us});
}

} // namespace
} // namespace gsched::cuda
