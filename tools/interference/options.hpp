// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interference/pairs.hpp"
#include "interference/study.hpp"

#include "common/cli/output_options.hpp"

#include <gsched/interference/coefficients.hpp>
#include <gsched/partition/latency_table.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace interference {

/// What the program is asked for.
enum class command { fit, evaluate, predict, calibrate, paper };

/// The options, read and checked.
struct options : common::outputs {
  command what = command::evaluate;
  bool once = false;                                               ///< no rows are left out
  std::string corun, solo, test_corun, test_solo, streams, starts; ///< as typed; may be empty
  profile_set profiles;                                            ///< of the tests
  profile_set fit_profiles;
  std::unique_ptr<workloads> fitted_with, tested_with;
  group_set pairs; ///< that are fitted or judged; empty for predict
  group_set test;  ///< pairs of other files, and groups of three and more
  group_set probes;
  group_set kernels;                          ///< single ones beside probes
  std::optional<gsched::latency_table> table; ///< of calibrate
  group_set starting;                         ///< pairs with a graph that only starts kernels
  std::vector<subject> laws;                  ///< those with pairs
  gsched::interference_coefficients begin;
  bool given = false;  ///< `begin` is evaluated, not fitted
  double safe = 1.2;   ///< slow-down up to which a pair counts as safe
  std::string assumed; ///< what no file says of the GPU, in one line
  std::filesystem::path out;
};

/// Nothing when help was asked for, which is then printed on stdout.
/// Errors   gsched::error with one line.
[[nodiscard]] std::unique_ptr<options> parse_options(int argc, char** argv);

} // namespace interference
