// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/bounded_search.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/every_cut.hpp>
#include <gsched/partition/exact.hpp>
#include <gsched/partition/gpulet.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>

#include <string>
#include <string_view>
#include <tuple>

namespace common {

/// All planners of the library.
using planners =
    std::tuple<gsched::squishy_bin_packing_planner, gsched::exact_whole_gpu_planner,
               gsched::self_tuning_planner, gsched::gpulet_planner, gsched::every_cut_planner,
               gsched::exact_two_partition_planner, gsched::elastic_planner,
               gsched::bounded_search_planner, gsched::exact_planner>;

/// Whether a planner uses whole GPUs only, so that there is no interference.
[[nodiscard]] inline bool is_whole(std::string_view name) {
  return name == gsched::squishy_bin_packing_planner::name ||
         name == gsched::exact_whole_gpu_planner::name;
}

/// Calls f(planner) for each, until one returns true.
template <class F>
bool any_planner(F f) {
  return std::apply([&](const auto&... p) { return (f(p) || ...); }, planners{});
}

[[nodiscard]] inline bool is_planner(std::string_view name) {
  return any_planner([&](const auto& p) { return p.name == name; });
}

/// Their names, between commas.
[[nodiscard]] inline std::string all_planners() {
  std::string names;
  any_planner([&](const auto& p) {
    names += (names.empty() ? "" : ",") + std::string(p.name);
    return false;
  });
  return names;
}

} // namespace common
