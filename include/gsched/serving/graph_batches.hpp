// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/serving/copy_times.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gsched {

/// The smallest of rising sizes that holds a batch, or the largest size.
[[nodiscard]] inline std::uint32_t graph_batch(std::span<const std::uint32_t> sizes,
                                               std::uint32_t batch) noexcept {
  const auto at = std::lower_bound(sizes.begin(), sizes.end(), batch);
  return at == sizes.end() ? sizes.back() : *at;
}

/// A model that exists as CUDA graphs of certain batch sizes only.
struct graph_model {
  std::string name;
  std::vector<std::uint32_t> batches;   ///< rising
  std::vector<std::uint64_t> inputs{};  ///< bytes of a request in each, copied before the graph
  std::vector<std::uint64_t> outputs{}; ///< and behind it
};

/// A latency table of these models only, in this order. A batch takes as long as the next larger
/// graph, plus `added` for the launch and the completion, plus the copies of its requests' data.
/// There are no batches above the largest graph.
///
/// Errors   one line: unknown_name for a model that the table does not have; bad_option for sizes
///          that do not rise from 1 or more, for a size that the table does not reach for a model,
///          for a negative `added`, and for `copies` that cannot be.
/// Cost     set-up: O(models x SMs x largest size).
[[nodiscard]] inline latency_table with_graphs(const latency_table& t,
                                               std::span<const graph_model> models,
                                               duration added = {}, const copy_times& copies = {}) {
  copies.check();
  if (added < duration::zero())
    throw error(errc::bad_option, "time added to a batch: " + std::to_string(added.count()) +
                                      " ns, expected 0 or more");
  std::vector<latency_row> rows;
  for (const graph_model& of : models) {
    const std::optional<std::size_t> m = t.find(of.name);
    if (!m)
      throw error(errc::unknown_name,
                  "model '" + of.name + "': not in the latency table, expected one of it");
    const std::vector<std::uint32_t>& sizes = of.batches;
    if (sizes.empty()) throw error(errc::bad_option, "batches of graphs: none, expected one");
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] == 0 || (i > 0 && sizes[i] <= sizes[i - 1]))
        throw error(errc::bad_option, "batches of graphs: " + std::to_string(sizes[i]) +
                                          ", expected sizes that rise from 1 or more");
    if (t.batches(*m).back() < sizes.back())
      throw error(errc::bad_option, "batches of graphs: " + std::to_string(sizes.back()) +
                                        ", expected at most " +
                                        std::to_string(t.batches(*m).back()) + ", the largest of " +
                                        of.name + " in the table");
    for (std::uint32_t b = 1; b <= sizes.back(); ++b) {
      const duration besides = added + copy_time(copies, {of.inputs, of.outputs}, b);
      for (const sm_count s : t.sizes(*m))
        rows.push_back({of.name, b, s, t.latency(*m, graph_batch(sizes, b), s) + besides});
    }
  }
  return latency_table(rows);
}

/// The same of all models of a table, with the same sizes.
[[nodiscard]] inline latency_table with_graph_batches(const latency_table& t,
                                                      std::span<const std::uint32_t> sizes,
                                                      duration added = {}) {
  std::vector<graph_model> all;
  for (std::size_t m = 0; m < t.size(); ++m)
    all.push_back({t.name(m), {sizes.begin(), sizes.end()}, {}, {}});
  return with_graphs(t, all, added);
}

} // namespace gsched
