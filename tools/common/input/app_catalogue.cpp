// SPDX-License-Identifier: Apache-2.0
#include "common/input/app_catalogue.hpp"

#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/input/table_options.hpp"

#include <gsched/io/app_json.hpp>
#include <gsched/workload/app_demands.hpp>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace common {

using gsched::app;
using gsched::duration;
using gsched::errc;

namespace {

constexpr number_range rate_range{0, 1e9, false, "requests a second"};

/// The file of an app that ships; of another name none.
std::optional<std::filesystem::path> shipped_app(const std::string& name) {
  if (name.find('/') != std::string::npos) return std::nullopt;
  const std::filesystem::path file = shipped("apps") / (name + ".json");
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  return file;
}

} // namespace

app_catalogue::app_catalogue(const gsched::latency_table& t) : table_(t) {
  apps_.reserve(t.size());
  for (std::size_t m = 0; m < t.size(); ++m)
    apps_.push_back(gsched::app_of_model(t.name(m), m, duration{}));
}

std::size_t app_catalogue::add(const std::string& file_or_name) {
  const auto ships = shipped_app(file_or_name);
  const std::filesystem::path file =
      ships ? *ships : to_file("--app", file_or_name, "an app that ships, or a file of one");
  record_input("--app", file);
  app a = gsched::load_app(file, table_);
  if (table_.find(a.name))
    refuse("--app", in_quotes(a.name) + " is a model of the table", "an app of another name");
  apps_.push_back(std::move(a));
  return apps_.size() - 1;
}

std::optional<std::size_t> app_catalogue::find(const std::string& name) {
  const auto at =
      std::find_if(apps_.begin(), apps_.end(), [&](const app& a) { return a.name == name; });
  if (at != apps_.end()) return static_cast<std::size_t>(at - apps_.begin());
  if (!shipped_app(name)) return std::nullopt;
  return add(name);
}

std::vector<app_catalogue::requested_app> app_catalogue::read(const std::string& rates,
                                                              const std::string& apps) {
  std::vector<requested_app> all;
  if (!rates.empty())
    for (const auto& [m, r] : to_model_numbers("--rates", rates, table_, rate_range))
      all.push_back({m, r});
  if (apps.empty()) return all;
  for (const std::string& item : to_list("--app", apps)) {
    const std::size_t equals = std::min(item.find('='), item.size());
    requested_app a{add(item.substr(0, equals)), std::nullopt};
    for (const requested_app& other : all)
      if (apps_[other.which].name == apps_[a.which].name)
        refuse("--app", apps_[a.which].name + " twice", "each app once");
    if (equals < item.size()) a.rate = to_number("--app", item.substr(equals + 1), rate_range);
    all.push_back(a);
  }
  return all;
}

void app_catalogue::set_slos(const std::string& slo, const std::string& slo_factor,
                             gsched::sm_count all, const std::set<std::size_t>& asked_for) {
  slos_ = to_slos(slo_factor, table_, all);
  std::vector<std::pair<std::size_t, duration>> of_apps;
  std::set<std::size_t> named, used = asked_for;
  for (const std::size_t which : asked_for)
    for (const gsched::app_stage& s : apps_[which].stages) used.insert(s.model);
  if (!slo.empty())
    for (const std::string& item : to_list("--slo", slo)) {
      const std::size_t equals = std::min(item.find('='), item.size());
      const auto which = find(item.substr(0, equals));
      if (!which)
        refuse("--slo", "no rows of " + in_quotes(item.substr(0, equals)),
               "a model of the table, or an app", errc::unknown_name);
      if (equals == item.size()) refuse("--slo", in_quotes(item), "NAME=MS");
      if (!used.contains(*which))
        refuse("--slo", apps_[*which].name + " has no rate", "a model, or an app, that has one");
      if (!named.insert(*which).second)
        refuse("--slo", apps_[*which].name + " twice", "each name once");
      const duration t = gsched::from_us(
          1e3 * to_number("--slo", item.substr(equals + 1), {1e-6, 1e6, false, "milliseconds"}));
      if (*which < slos_.size())
        slos_[*which] = t;
      else
        of_apps.emplace_back(*which, t);
    }
  for (app& a : apps_) {
    a.slo = duration::zero(); // the longest of its models': Choi et al., section 6.1
    for (const gsched::app_stage& s : a.stages) a.slo = std::max(a.slo, slos_[s.model]);
  }
  for (const auto& [which, t] : of_apps) apps_[which].slo = t;
  // An app that --slo names is shared out in proportion to its models' SLOs: the factor decides
  // something only where --slo names some of these.
  uses_slo_factor_ = std::any_of(asked_for.begin(), asked_for.end(), [&](std::size_t which) {
    const std::vector<gsched::app_stage>& stages = apps_[which].stages;
    const auto n = std::count_if(stages.begin(), stages.end(),
                                 [&](const auto& s) { return named.contains(s.model); });
    return n < std::ssize(stages) && (n > 0 || !named.contains(which));
  });
}

} // namespace common
