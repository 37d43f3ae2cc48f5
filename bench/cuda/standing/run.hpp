// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "standing/scene.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace standing {

using nlohmann::ordered_json;

struct run_options {
  std::vector<std::string> parts{"queues", "slots", "calls", "growth", "cost", "building"};
  std::vector<std::string> only;
  std::vector<unsigned> connections{2, 8, 32};
  double seconds = 150;
  std::string json;
  bool quick = false;
  int gpu = 0;
};

/// A part of the experiment. Its cases are measured in child processes; the parent prints them.
struct part {
  std::string_view name;
  /// Each case has its own process for each number of connections; otherwise all cases share one.
  bool alone;
  std::vector<std::string> (*cases)(const run_options& o);
  /// In a child. The results of one case, an object. Throws if a CUDA call fails.
  ordered_json (*measure)(scene& s, const std::string& which, const run_options& o);
  /// In the parent: the title and the head of the table.
  void (*print_head)(const run_options& o);
  /// A row or more. `figures`: an array, by number of connections where the part is `alone`.
  void (*print)(const ordered_json& figures, const run_options& o);
};

[[nodiscard]] part queues_part();
[[nodiscard]] part slots_part();
[[nodiscard]] part calls_part();
[[nodiscard]] part growth_part();
[[nodiscard]] part cost_part();
[[nodiscard]] part building_part();
[[nodiscard]] std::vector<part> all_parts();

/// Runs all requested parts, case by case. Returns the program's exit status.
int run_all(const run_options& o);
/// The cases of a part, in this process; a line of JSON for each goes to standard output.
int run_child(const std::string& part_name, const std::vector<std::string>& cases,
              const run_options& o);

/// Of values in microseconds: n, p10, p50, p90, p99, max.
[[nodiscard]] ordered_json summary(const std::vector<double>& us);

} // namespace standing
