// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interference/pairs.hpp"
#include "interference/study.hpp"

#include "common/cli/output_options.hpp"

#include <gsched/interference/coefficients.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace interference {

/// The options, read and checked.
struct options : common::outputs {
  bool fit = false;                               ///< the subcommand: its coefficients are printed
  bool once = false;                              ///< no rows are left out
  std::string corun, solo, test_corun, test_solo; ///< as typed; the last two may be empty
  std::unique_ptr<pair_set> pairs;
  std::unique_ptr<pair_set> test; ///< null for none
  std::vector<subject> laws;      ///< those with pairs
  gsched::interference_coefficients begin;
  bool given = false; ///< `begin` is evaluated, not fitted
  std::filesystem::path out;
};

/// Nothing when help was asked for, which is then printed on stdout.
/// Errors   gsched::error with one line.
[[nodiscard]] std::optional<options> parse_options(int argc, char** argv);

} // namespace interference
