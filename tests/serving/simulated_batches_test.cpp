// SPDX-License-Identifier: Apache-2.0
#include "serving/batch_runner_conformance.hpp"

#include <gsched/serving/simulated_batches.hpp>

#include <doctest/doctest.h>

#include <optional>
#include <vector>

using namespace gsched;
using namespace std::chrono_literals;

namespace {

latency_table table() {
  std::vector<latency_row> rows;
  for (std::uint32_t b = 1; b <= 8; ++b)
    for (const std::uint32_t s : {8u, 32u})
      rows.push_back({"m", b, sm_count{s}, 100us + duration{1'000'000} * b / static_cast<int>(s)});
  return latency_table(rows);
}

} // namespace

TEST_CASE("simulated_batches conforms to batch_runner") {
  const latency_table t = table();
  const interference_function alone;
  simulated_batches runner(t, alone, 1, 2ms);
  testing::batch_runner_conformance<simulated_batches>{runner}.run();
}

TEST_CASE("virtual time advances in wait only, to the first end or plan; neighbours slow batches") {
  const latency_table t = table();
  const interference_function twice = [](std::span<const gpulet> all, std::size_t, std::size_t) {
    return all.size() > 1 ? 2.0 : 1.0;
  };
  simulated_batches runner(t, twice, 1, 3ms);
  std::vector<served_partition> two(2);
  runner.activate(two);
  runner.begin({0, 0, sm_count{8}, 0, 8}); // 1.1 ms alone
  CHECK(runner.now() == time_point{});
  CHECK(!runner.try_end());
  runner.wait(time_point{550us});
  CHECK(runner.now() == time_point{550us});
  runner.begin({0, 1, sm_count{8}, 0, 8});
  runner.wait(no_deadline);
  CHECK(runner.now() == time_point{1650us}); // half of it at half its speed
  CHECK(runner.try_end() == 0u);
  CHECK(!runner.try_end());
  runner.wait(no_deadline);
  CHECK(runner.now() == time_point{2200us});
  CHECK(runner.try_end() == 1u);
  partition_plan p;
  runner.prepare([&] { return &p; }); // the first is there at once
  CHECK(runner.try_prepared());
  runner.prepare([&] { return &p; });
  CHECK(!runner.try_prepared());
  runner.wait(no_deadline);
  CHECK(runner.now() == time_point{5200us});
  CHECK(runner.try_prepared());
  runner.wait(no_deadline); // nothing will ever come
  CHECK(runner.now() == time_point{5200us});
}
