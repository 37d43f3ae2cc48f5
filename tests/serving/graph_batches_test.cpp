// SPDX-License-Identifier: Apache-2.0
#include <gsched/serving/graph_batches.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
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

TEST_CASE("a batch takes the copies of its requests longer, not those of its graph") {
  const std::vector<latency_row> rows{{"a", 1, sm_count{8}, 100us}, {"a", 8, sm_count{8}, 800us}};
  const latency_table t(rows);
  // 2 us a copy; 1000 and 3000 bytes at 10 bytes/ns, 500 bytes at 5 bytes/ns
  const copy_times copies{2us, 10, 5};
  const std::vector<graph_model> models{{"a", {1, 8}, {1000, 3000}, {500}}};
  const latency_table g = with_graphs(t, models, 5us, copies);
  for (std::uint32_t b = 1; b <= 8; ++b) {
    const duration graph = t.latency(0, b == 1 ? 1 : 8, sm_count{8});
    const duration off = g.latency(0, b, sm_count{8}) - graph - 5us - b * 6500ns;
    CHECK((off >= -1ns && off <= 1ns));
  }
  // Of a model that moves nothing, and where copies take no time, the same as without.
  const std::vector<graph_model> still{{"a", {1, 8}}};
  for (const latency_table& same :
       {with_graphs(t, still, 5us, copies), with_graphs(t, models, 5us)})
    for (std::uint32_t b = 1; b <= 8; ++b)
      CHECK(same.latency(0, b, sm_count{8}) ==
            with_graphs(t, still, 5us).latency(0, b, sm_count{8}));
  for (const copy_times& bad :
       {copy_times{-1ns, 1, 1}, copy_times{1us, -1, 1}, copy_times{1us, 1, -1},
        copy_times{1us, std::numeric_limits<double>::quiet_NaN(), 1},
        copy_times{1us, 1, std::numeric_limits<double>::infinity()}})
    CHECK_THROWS_AS(static_cast<void>(with_graphs(t, models, 5us, bad)), error);
}
