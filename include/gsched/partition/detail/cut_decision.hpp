// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/detail/cut_search.hpp>
#include <gsched/partition/detail/partition_decision.hpp>
#include <gsched/partition/detail/pieces.hpp>
#include <gsched/partition/detail/settle.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/plan.hpp>

#include <optional>
#include <span>
#include <vector>

namespace gsched::detail {

/// What was found by cuts.
struct cut_answer {
  std::optional<partition_plan> plan{};
  bool is_hopeless = false; ///< even mixtures of the cuts that it knows do not serve all
};

/// Looks for a plan by cut_search, with one effort after the other as long as there is hope.
template <interference_model Interference>
[[nodiscard]] cut_answer plan_by_cuts(const latency_table& t, std::span<const demand> demands,
                                      std::span<const gpu_shape> shapes, const Interference& beside,
                                      std::span<const cut_effort> efforts) {
  std::vector<demand> some;
  std::vector<double> needs;
  for (const demand& d : demands)
    if (d.rate > 0) {
      some.push_back(d);
      needs.push_back(d.rate * enough);
    }
  const piece_menu menu(t, some, shapes);
  cut_answer said;
  for (const cut_effort& effort : efforts) {
    cut_search search(t, menu, needs, beside, effort);
    said.is_hopeless = search.scale() < 1;
    if (said.is_hopeless) break;
    piece_settling settling(t, menu, beside);
    if (search.run([&](std::span<const dealt_piece> pieces) {
          said.plan = settling.plan(pieces);
          return said.plan.has_value();
        }))
      break;
  }
  return said;
}

} // namespace gsched::detail
