// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cliff/scene.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cliff {

/// An experiment in one fresh process. The first mark is the replay time before the trigger, the
/// second the time after it; further marks are cures.
struct experiment_case {
  std::string name;
  std::function<void(scene&)> run;
  std::vector<std::pair<std::string, std::string>> environment = {};
  unsigned device_flags = 0; ///< of cudaSetDeviceFlags, before the context is created
  int repeats = 1;
};

/// In the order of importance.
[[nodiscard]] std::vector<experiment_case> all_cases();
/// By name; also count.sN.lM for any N streams with M launches each, and sequence.X for any
/// sequence (sequence.hpp).
[[nodiscard]] std::optional<experiment_case> find_case(const std::string& name);

[[nodiscard]] experiment_case count_case(std::size_t streams, int launches);

using cases = std::vector<experiment_case>;
void add_controls(cases& to);
void add_sequences(cases& to);
void add_speeds(cases& to);
void add_bases(cases& to);
void add_counts(cases& to);
void add_kernels(cases& to);
void add_streams(cases& to);
void add_harmless(cases& to);
void add_cures(cases& to);
void add_surroundings(cases& to);

/// The second role of the program: performs an operation on the GPU, reports it in a line, and
/// stays until its standard input ends. `kind` is one of context, crossed, streams.
int run_helper(const std::string& kind, int gpu);
/// The command that starts this program again.
struct self {
  std::string path;
  int gpu = 0;
};
[[nodiscard]] self& this_program();

} // namespace cliff
