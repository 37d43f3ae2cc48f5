// SPDX-License-Identifier: Apache-2.0
#include "serving/batch_data_conformance.hpp"
#include "serving/batch_runner_conformance.hpp"

#include <gsched/serving/paced_batches.hpp>
#include <gsched/serving/simulated_batches.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
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

/// Computes pair_of_sums.
void sums(std::size_t, std::span<const void* const> inputs, std::span<void* const> outputs) {
  using testing::pair_of_sums;
  const auto in = [&](std::size_t i, std::size_t n) {
    return static_cast<const std::uint32_t*>(inputs[i])[n];
  };
  for (std::size_t n = 0; n < pair_of_sums::length; ++n) {
    if (outputs[0] != nullptr)
      static_cast<std::uint32_t*>(outputs[0])[n] = pair_of_sums::sum(in(0, n), in(1, n));
    if (outputs[1] != nullptr)
      static_cast<std::uint32_t*>(outputs[1])[n] = pair_of_sums::difference(in(0, n), in(1, n));
  }
}

template <class Runner>
void check_data(Runner& runner) {
  std::list<std::array<std::byte, testing::pair_of_sums::bytes>> all;
  testing::batch_data_conformance<Runner> d{runner, 1,
                                            [&](std::size_t) { return all.emplace_back().data(); }};
  d.run();
}

} // namespace

TEST_CASE("simulated_batches conforms to batch_runner") {
  const latency_table t = table();
  const interference_function alone;
  simulated_batches runner(t, alone, 1, 2ms);
  testing::batch_runner_conformance<simulated_batches>{runner}.run();
}

TEST_CASE("simulated batches move the data of their requests") {
  const latency_table t = table();
  const interference_function alone;
  simulated_batches runner(t, alone, 1, 2ms, sums);
  check_data(runner);
}

TEST_CASE("paced_batches conforms to batch_runner, moves data, and keeps to the clock") {
  const latency_table t = table();
  const interference_function alone;
  paced_batches runner(t, alone, 1, 200us, sums);
  testing::batch_runner_conformance<paced_batches>{runner}.run();
  paced_batches mover(t, alone, 1, 200us, sums);
  check_data(mover);
  paced_batches timed(t, alone, 1);
  std::vector<served_partition> one(1);
  timed.activate(one);
  const time_point begun = timed.now();
  timed.begin({0, 0, sm_count{8}, 0, 8}); // 1.1 ms
  CHECK(!timed.try_end());
  while (!timed.try_end()) timed.wait(no_deadline);
  CHECK(timed.now() - begun >= 1100us);
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
