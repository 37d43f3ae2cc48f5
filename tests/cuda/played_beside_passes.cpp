// SPDX-License-Identifier: Apache-2.0
//
// The order of a graph's operations beside a probe, and which of them waited for it.
#include "probe/beside_passes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

constexpr double limit = 3000;
enum kind : std::size_t { quick, copied, waits, slow, kinds };

/// A GPU that plays operations of each kind, and a host that is late in some of their runs beside
/// the probe: (operation, run) by so many microseconds.
struct played {
  std::map<std::pair<std::size_t, std::size_t>, double> late{};
  std::vector<std::size_t> order{};
  std::vector<std::size_t> besides = std::vector<std::size_t>(kinds, 0);

  double alone(std::size_t i) {
    order.push_back(i);
    return i == slow ? 500 : 10;
  }
  double beside(std::size_t i, double until) {
    order.push_back(i);
    const auto found = late.find({i, besides[i]++});
    const double more = found == late.end() ? 0 : found->second;
    if (i == waits) return until + 210 + more;
    return (i == slow ? 500 * 7 : 11) + more; // slowed, and it ends after the probe's usual limit
  }
  std::vector<cuda::beside_times> run(std::size_t passes) {
    return cuda::beside_passes(
        kinds, passes, limit, [](std::size_t i) { return i != copied; },
        [&](std::size_t i) { return alone(i); },
        [&](std::size_t i, double until) { return beside(i, until); });
  }
};

TEST_CASE("beside a probe: only what waits for it is held up, and all runs are in order") {
  for (const std::size_t passes : {1u, 3u, 5u}) {
    CAPTURE(passes);
    played gpu;
    const std::vector<cuda::beside_times> all = gpu.run(passes);
    for (std::size_t i = 0; i < kinds; ++i) {
      CAPTURE(i);
      CHECK(all[i].held_up == (i == waits));
      CHECK(all[i].alone.size() == passes);
      CHECK(all[i].beside.size() == (i == copied ? 0 : i == waits ? 1 : passes));
    }
    REQUIRE(gpu.order.size() % kinds == 0);
    for (std::size_t n = 0; n < gpu.order.size(); ++n) REQUIRE(gpu.order[n] == n % kinds);
  }
}

TEST_CASE("beside a probe: a host that is late in any two runs decides nothing") {
  for (const double by : {170., 900., -900.})
    for (std::size_t first = 0; first < 6; ++first)
      for (std::size_t second = first; second < 6; ++second) {
        CAPTURE(by);
        CAPTURE(first);
        CAPTURE(second);
        played gpu;
        for (const std::size_t i : {waits, slow})
          for (const std::size_t run : {first, second}) gpu.late[{i, run}] = by;
        const std::vector<cuda::beside_times> all = gpu.run(3);
        CHECK(all[waits].held_up);
        CHECK(!all[slow].held_up);
        CHECK(all[slow].beside.size() == 3);
      }
}

} // namespace
} // namespace gsched::testing
