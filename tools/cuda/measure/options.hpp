// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "measure/probe_list.hpp"

#include "common/cli/output_options.hpp"

#include <gsched/core/quantity.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace measure {

/// What is measured, in the order in which `all` does it, which leaves out `kernels`.
/// The profiler comes last: it can slow what runs after it in the process.
enum class part : std::uint8_t { latency, pairs, starts, probes, kernels, counters };

/// Which SMs a graph and a probe beside it have.
enum class sm_split : std::uint8_t {
  both,   ///< one after the other
  shared, ///< all SMs for both
  own     ///< some groups for each
};

/// A shared library with an adaptor: --adaptor.
struct adaptor_choice {
  std::filesystem::path library;
  std::string model;
  std::uint32_t batch = 1;
  std::string parameters; ///< text for the adaptor's init
};

/// The options, read and checked.
struct options : common::outputs {
  std::vector<part> parts;
  std::filesystem::path out;
  int gpu = 0;
  std::vector<std::string> models; ///< built-in graphs, and profiles' files
  std::vector<adaptor_choice> adaptors;
  std::map<std::string, std::string> libraries; ///< versions for machine.json
  std::vector<gsched::sm_count> sms;            ///< empty: all sizes that a partition can have
  probe_choice probes;
  sm_split split = sm_split::both;
  /// The graph's SMs of a split, rounded up to whole groups; 0: half of the groups.
  gsched::sm_count victim_sms{};
  std::vector<std::string> beside; ///< graphs one of which is in each pair; empty: any pair counts
  std::size_t groups = 12;         ///< of several graphs at once
  std::vector<std::size_t> group_sizes{3, 4};
  double minutes = 20;
  double window_ms = 15;
  std::uint64_t seed = 1;
  bool anew = false;
  bool busy = false; ///< measure although the GPU seems to be in use

  [[nodiscard]] bool has(part p) const {
    return std::find(parts.begin(), parts.end(), p) != parts.end();
  }
};

/// `captured` graphs of this process are measured besides those that the options name.
/// Empty after printing the help.
/// Errors   gsched::error with one line.
[[nodiscard]] std::optional<options> parse_options(int argc, const char* const* argv,
                                                   bool captured);

[[nodiscard]] const char* name_of(part p) noexcept;

} // namespace measure
