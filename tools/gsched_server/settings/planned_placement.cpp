// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/settings/planned_placement.hpp"

#include "common/cli/option_values.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/json_fields.hpp>
#include <gsched/io/read_text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace gsched_server {

using common::in_quotes;
using common::refuse;

planned_placement::planned_placement(const std::filesystem::path& file, std::size_t devices)
    : file_(file.string()) {
  using value = gsched::json_fields::json;
  const gsched::json_fields of(file_);
  const value document = of.parse_once(gsched::read_text(file, "a plan", std::size_t{16} << 20));
  const char* const expected = "what plan --json writes for one planner and one set of rates";
  const auto fail = [&](std::string_view field, const std::string& wrong) {
    of.fail({.field = field}, wrong, expected);
  };
  if (!document.is_object()) fail("", "is no object");
  const value& runs = of.array(document, {.field = "runs"});
  if (runs.size() != 1 || !runs[0].is_object())
    fail("runs", "has " + std::to_string(runs.size()) + " plans");
  const auto plan = runs[0].find("plan");
  if (plan == runs[0].end() || !plan->is_array() || plan->empty())
    fail("runs/0/plan", "is no plan");
  constexpr std::uint64_t most_sms = 100'000;
  const std::uint64_t whole = document.contains("sms")
                                  ? of.whole<std::uint64_t>(document, {.field = "sms"}, 1, most_sms)
                                  : 0;
  std::map<std::string, std::set<std::uint32_t>> found;
  for (std::size_t i = 0; i < plan->size(); ++i) {
    const std::string at = "runs/0/plan/" + std::to_string(i);
    const value& partition = (*plan)[i];
    if (!partition.is_object() || !partition.contains("gpu")) fail(at, "is no partition");
    const std::string gpu_at = at + "/gpu";
    const std::uint64_t gpu =
        of.whole_of(partition["gpu"], {.field = gpu_at}, 0, std::uint64_t{devices} - 1);
    if (partition.contains("sms")) {
      const std::string sms_at = at + "/sms";
      const std::uint64_t sms = of.whole_of(partition["sms"], {.field = sms_at}, 1, most_sms);
      if (sms < whole) sms_.push_back(sms);
    }
    const auto portions = partition.find("portions");
    if (portions == partition.end() || !portions->is_array()) fail(at, "has no portions");
    for (const value& portion : *portions) {
      const auto model = portion.is_object() ? portion.find("model") : portion.end();
      if (model == portion.end() || !model->is_string()) fail(at, "has a portion without a model");
      found[model->get<std::string>()].insert(static_cast<std::uint32_t>(gpu));
    }
  }
  for (const auto& [model, on] : found) places_[model].assign(on.begin(), on.end());
}

planned_placement::places::const_iterator planned_placement::find(std::string_view model) const {
  const auto found = places_.find(model);
  const std::size_t batch = model.rfind("_b");
  const bool has_batch = batch != model.npos && batch + 2 < model.size() &&
                         model.find_first_not_of("0123456789", batch + 2) == model.npos;
  return found == places_.end() && has_batch ? places_.find(model.substr(0, batch)) : found;
}

std::string planned_placement::partitions() const {
  if (sms_.empty()) return {};
  const auto [least, most] = std::ranges::minmax(sms_);
  return fmt::format(
      "{} of {} SMs", sms_.size() == 1 ? "a partition" : fmt::format("{} partitions", sms_.size()),
      least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most));
}

std::vector<std::uint32_t> planned_placement::devices_of(std::string_view model) const {
  if (const auto found = find(model); found != places_.end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [name, on] : places_) names.push_back(name);
  refuse(file_, "no model " + in_quotes(model) + " in the plan", common::joined_by_or(names),
         gsched::errc::unknown_name);
}

} // namespace gsched_server
