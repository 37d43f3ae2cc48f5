// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cli/command_line.hpp"

#include <gsched/policy/names.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace common {

/// Policies by name, from gsched/policy/names.hpp: the names, the help text and the errors are the
/// same in all programs.

/// Every policy that a program takes, and the ways without a scheduler: "direct" and "single".
[[nodiscard]] const std::vector<std::string>& policy_names();

/// "direct" or "single".
[[nodiscard]] bool is_unscheduled(std::string_view policy);

/// A line for each name with what it does, for the text of --help.
[[nodiscard]] std::string policy_help();

/// The policies to run, with their parameters.
struct policy_choice {
  std::vector<std::string> names; ///< none twice
  bool all = false;               ///< "all" was asked for
  gsched::policy_parameters parameters{};
};

/// --policy, --threshold and --slice.
class policy_options {
public:
  void declare(command_line& line);
  /// Errors   gsched::error with one line; bad_option also for a parameter that no policy uses.
  [[nodiscard]] policy_choice read(const command_line& line) const;

private:
  std::string policy_ = "all", threshold_ = "10000", slice_ = "100";
};

/// Whether some of the policies has a property: any_policy(names, &policy_description::preempts).
[[nodiscard]] bool any_policy(const std::vector<std::string>& names,
                              bool gsched::policy_description::*property);
/// The names of the policies that have it: "srpt, edf, srpt+deficit or boost".
[[nodiscard]] std::string policies_with(bool gsched::policy_description::*property);

} // namespace common
