// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interference/pairs.hpp"
#include "interference/study.hpp"

#include <gsched/interference/coefficients.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace interference {

/// Everything that the command line says, read and checked.
struct options {
  bool fit = false;  ///< asked for by name: its coefficients are told
  bool once = false; ///< nothing is left out
  bool progress = false;
  std::string corun, solo, test_corun, test_solo; ///< as they were written; the latter may be empty
  std::unique_ptr<pair_set> pairs;
  std::unique_ptr<pair_set> test; ///< null for none
  std::vector<subject> laws;      ///< those that there are pairs for
  gsched::interference_coefficients begin;
  bool given = false; ///< `begin` is to be judged, and not to be fitted
  std::filesystem::path out;
  std::filesystem::path json;
};

/// Nothing when help was asked for, which is then printed on stdout.
/// Errors   gsched::error with one line.
[[nodiscard]] std::optional<options> parse_options(int argc, char** argv);

} // namespace interference
