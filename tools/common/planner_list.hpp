// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/best.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/ideal.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>

#include <string>
#include <string_view>
#include <tuple>

namespace common {

/// Every planner that ships.
using planners =
    std::tuple<gsched::squishy_bin_packing, gsched::elastic_partitioning,
               gsched::guided_self_tuning, gsched::best_partitioning, gsched::ideal_partitioning>;

/// f(planner) for each, until one says true.
template <class F>
bool any_planner(F f) {
  return std::apply([&](const auto&... p) { return (f(p) || ...); }, planners{});
}

[[nodiscard]] inline bool is_planner(std::string_view name) {
  return any_planner([&](const auto& p) { return p.name == name; });
}

/// Between commas.
[[nodiscard]] inline std::string all_planners() {
  std::string names;
  any_planner([&](const auto& p) {
    names += (names.empty() ? "" : ",") + std::string(p.name);
    return false;
  });
  return names;
}

} // namespace common
