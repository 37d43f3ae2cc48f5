// SPDX-License-Identifier: Apache-2.0
#include "plan/scenarios.hpp"

#include "plan/rates_csv.hpp"

#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/input/app_catalogue.hpp"

#include <gsched/workload/app_demands.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

namespace plan {

namespace {

using common::in_quotes;
using common::number_range;
using common::refuse;
using common::to_list;
using common::to_number;
using gsched::errc;
using gsched::latency_table;

constexpr number_range rate_range{0, 1e9, false, "requests a second"};

std::vector<std::size_t> to_models(const std::string& list, const latency_table& t) {
  std::vector<std::size_t> models;
  if (list.empty())
    for (std::size_t m = 0; m < t.size(); ++m) models.push_back(m);
  else
    for (const std::string& name : to_list("--models", list)) {
      const auto m = t.find(name);
      if (!m)
        refuse("--models", "no rows of " + in_quotes(name), "a model of the table",
               errc::unknown_name);
      if (std::find(models.begin(), models.end(), *m) != models.end())
        refuse("--models", name + " twice", "each model once");
      models.push_back(*m);
    }
  return models;
}

[[nodiscard]] bool is_any(const named_rates& n) {
  return std::any_of(n.rates.begin(), n.rates.end(), [](const auto& r) { return r.second > 0; });
}

/// The rates come from one of three options; --app may be given beside --rates or --rates-file.
void check_source(const scenario_texts& raw) {
  const char* taken = nullptr;
  for (const auto& [option, text] : {std::pair("--rates", &raw.rates),
                                     {"--rates-file", &raw.file},
                                     {"--scenarios", &raw.scenarios}}) {
    if (text->empty()) continue;
    if (taken) refuse(option, std::string("given beside ") + taken, "one of both");
    taken = option;
  }
  if (!raw.apps.empty() && !raw.scenarios.empty())
    refuse("--app", "given beside --scenarios", "one of both");
  if (!taken && raw.apps.empty())
    refuse("--rates", "not given, nor --app, --rates-file or --scenarios", "one of them");
}

/// Every combination of --levels over --models.
std::vector<named_rates> combinations(const scenario_texts& raw, const latency_table& t) {
  if (raw.scenarios != "all")
    refuse("--scenarios", in_quotes(raw.scenarios), "all", errc::unknown_name);
  std::vector<double> levels;
  for (const std::string& l : to_list("--levels", raw.levels)) {
    levels.push_back(to_number("--levels", l, rate_range));
    if (std::find(levels.begin(), levels.end() - 1, levels.back()) != levels.end() - 1)
      refuse("--levels", in_quotes(l) + " is named twice", "each once");
  }
  const std::vector<std::size_t> models = to_models(raw.models, t);
  double n = 1;
  for (std::size_t i = 0; i < models.size(); ++i) n *= static_cast<double>(levels.size());
  if (n > static_cast<double>(most_scenarios))
    refuse("--scenarios",
           std::to_string(levels.size()) + " rates of " + std::to_string(models.size()) + " models",
           "at most " + std::to_string(most_scenarios) + " combinations");
  std::vector<named_rates> all;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    named_rates s;
    s.rates.reserve(models.size());
    for (std::size_t m = 0, rest = i; m < models.size(); ++m, rest /= levels.size())
      s.rates.emplace_back(models[m], levels[rest % levels.size()]);
    if (is_any(s)) all.push_back(std::move(s));
  }
  if (all.empty()) refuse("--levels", "no rate above 0", "one at least");
  return all;
}

/// The rates of --rates and --app, or of the file.
std::vector<named_rates> read_named(const scenario_texts& raw, common::app_catalogue& known) {
  named_rates given;
  std::vector<std::size_t> without;
  for (const auto& [which, rate] : known.read(raw.rates, raw.apps))
    if (rate)
      given.rates.emplace_back(which, *rate);
    else
      without.push_back(which);
  std::vector<named_rates> all;
  if (raw.file.empty())
    all.push_back(std::move(given));
  else if (!given.rates.empty())
    refuse("--app", "a rate given beside --rates-file", "one of both");
  else
    all = read_rates(gsched::csv_table(common::to_file("--rates-file", raw.file, "a CSV file"),
                                       rate_columns(), more_rate_columns()),
                     [&](const std::string& name) { return known.find(name); });
  for (const std::size_t which : without)
    if (std::none_of(all.begin(), all.end(), [&](const named_rates& n) {
          return std::any_of(n.rates.begin(), n.rates.end(),
                             [&](const auto& r) { return r.first == which; });
        }))
      refuse("--app", in_quotes(known[which].name) + " without a rate",
             "NAME=RATE, or rates of " + known[which].name + " in --rates-file");
  if (raw.file.empty() && !is_any(all[0]))
    refuse(raw.rates.empty() ? "--app" : "--rates", "no rate above 0", "one at least");
  return all;
}

} // namespace

scenarios read_scenarios(const scenario_texts& raw, const latency_table& t,
                         gsched::sm_count all_sms) {
  const double scale = to_number("--rate-scale", raw.rate_scale, {0, 1e9, true, "times"});
  check_source(raw);
  common::app_catalogue known(t);
  std::vector<named_rates> named =
      raw.scenarios.empty() ? read_named(raw, known) : combinations(raw, t);
  std::set<std::size_t> asked_for;
  for (const named_rates& n : named)
    for (const auto& [which, rate] : n.rates) asked_for.insert(which);
  known.set_slos(raw.slo, raw.slo_factor, all_sms, asked_for);
  scenarios read;
  read.uses_slo_factor = known.uses_slo_factor();
  read.all.reserve(named.size());
  for (named_rates& n : named) {
    std::vector<gsched::app> apps;
    std::vector<double> rates;
    apps.reserve(n.rates.size());
    rates.reserve(n.rates.size());
    for (auto& [which, rate] : n.rates) {
      rates.push_back(rate *= scale);
      apps.push_back(known[which]);
      if (rate > 0) check(apps.back(), t, known.slos());
    }
    read.all.push_back(
        {std::move(n.name), std::move(n.rates), gsched::demands_of(apps, rates, known.slos())});
  }
  read.apps = std::move(known).take();
  return read;
}

} // namespace plan
