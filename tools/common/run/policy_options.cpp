// SPDX-License-Identifier: Apache-2.0
#include "common/run/policy_options.hpp"

#include "common/cli/option_values.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace common {

using gsched::policy_description;

namespace {

std::vector<std::string> to_policies(const std::string& text) {
  const std::vector<std::string>& known = policy_names();
  if (text == "all") return known;
  std::vector<std::string> policies;
  for (std::string& name : to_list("--policy", text)) {
    if (gsched::find_policy(name) == nullptr)
      refuse("--policy", "unknown policy " + in_quotes(name),
             fmt::format("all, or some of {}", fmt::join(known, ",")), gsched::errc::unknown_name);
    const auto key = [](const std::string& of) {
      return std::pair(gsched::name_without_factor(of), gsched::factor_of(of));
    };
    const auto wanted = key(name); // refuses a bad factor
    const auto other = std::find_if(policies.begin(), policies.end(),
                                    [&](const std::string& p) { return key(p) == wanted; });
    if (other != policies.end())
      refuse("--policy",
             in_quotes(name) + (name == *other ? "" : ", that is " + *other + ",") +
                 " is named twice",
             "each policy once");
    policies.push_back(std::move(name));
  }
  return policies;
}

} // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const policy_description& d : gsched::policy_descriptions) all.emplace_back(d.name);
    for (const policy_description& d : gsched::unscheduled_descriptions) all.emplace_back(d.name);
    return all;
  }();
  return names;
}

bool is_unscheduled(std::string_view policy) {
  const auto& all = gsched::unscheduled_descriptions;
  return std::any_of(all.begin(), all.end(),
                     [&](const policy_description& d) { return d.name == policy; });
}

std::string policy_help() {
  std::string text;
  for (const std::string& name : policy_names())
    text += fmt::format("  {:<13} {}\n", name, gsched::find_policy(name)->summary);
  return text;
}

bool any_policy(const std::vector<std::string>& names, bool policy_description::*property) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return gsched::find_policy(name)->*property; });
}

std::string policies_with(bool policy_description::*property) {
  std::vector<std::string_view> names;
  for (const policy_description& d : gsched::policy_descriptions)
    if (d.*property) names.push_back(d.name);
  return joined_by_or(names);
}

void policy_options::declare(command_line& line) {
  line.option("--policy", policy_, "P,...",
              "all, or some of the policies below; boost:F is boost\nwith the factor F: 1 favours "
              "the tail of latency, the\ndefault of 0.3 mean and tail");
  line.option("--threshold", threshold_, "US",
              "srpt+deficit: device time that a client may be owed");
  line.option("--slice", slice_, "US", "rr: device time of a job's turn");
}

policy_choice policy_options::read(const command_line& line) const {
  policy_choice choice;
  choice.names = to_policies(policy_);
  choice.all = policy_ == "all";
  choice.parameters.threshold = to_us("--threshold", threshold_, 1e9);
  choice.parameters.slice = to_us("--slice", slice_, 1e9, true);
  const auto check = [&](const char* option, bool policy_description::*property) {
    const std::string users = policies_with(property);
    line.refuse_unused(any_policy(choice.names, property), {option}, "without the policy " + users,
                       users + " in --policy");
  };
  check("--threshold", &policy_description::uses_threshold);
  check("--slice", &policy_description::uses_slice);
  return choice;
}

} // namespace common
