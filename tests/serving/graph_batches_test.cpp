// SPDX-License-Identifier: Apache-2.0
#include <gsched/serving/graph_batches.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace gsched;
using namespace std::chrono_literals;

TEST_CASE("a batch takes as long as the next larger graph") {
  const std::vector<latency_row> rows{{"a", 1, sm_count{8}, 100us},
                                      {"a", 8, sm_count{8}, 800us},
                                      {"a", 1, sm_count{16}, 60us},
                                      {"a", 8, sm_count{16}, 410us}};
  const latency_table t(rows);
  const std::vector<std::uint32_t> sizes{1, 2, 6};
  const latency_table g = with_graph_batches(t, sizes, 5us);
  CHECK(g.name(0) == "a");
  CHECK(g.batches(0).back() == 6);
  for (std::uint32_t b = 1; b <= 6; ++b)
    for (const std::uint32_t s : {8u, 12u, 16u}) {
      const std::uint32_t next = b <= 2 ? b : 6;
      CHECK(graph_batch(sizes, b) == next);
      const duration off = g.latency(0, b, sm_count{s}) - t.latency(0, next, sm_count{s}) - 5us;
      CHECK((off >= -1ns && off <= 1ns));
    }
  CHECK(graph_batch(sizes, 9) == 6);
  for (const std::vector<std::uint32_t>& bad :
       std::vector<std::vector<std::uint32_t>>{{}, {0, 1}, {2, 2}, {4, 2}, {1, 9}})
    CHECK_THROWS_AS(static_cast<void>(with_graph_batches(t, bad)), error);
  CHECK_THROWS_AS(static_cast<void>(with_graph_batches(t, sizes, -1us)), error);
}
