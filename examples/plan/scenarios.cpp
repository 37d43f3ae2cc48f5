// SPDX-License-Identifier: Apache-2.0
#include "plan/scenarios.hpp"

#include "plan/rates_csv.hpp"

#include "parts/model_values.hpp"
#include "parts/values.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace plan {

namespace {

using gsched::duration;
using gsched::errc;
using gsched::latency_table;
using parts::in_quotes;
using parts::number_range;
using parts::refuse;
using parts::to_list;
using parts::to_number;

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

/// Which of the three says the rates.
void check_source(const scenario_words& w) {
  const char* taken = nullptr;
  for (const auto& [option, word] :
       {std::pair("--rates", &w.rates), {"--rates-file", &w.file}, {"--scenarios", &w.scenarios}}) {
    if (word->empty()) continue;
    if (taken) refuse(option, std::string("given beside ") + taken, "one of both");
    taken = option;
  }
  if (!taken) refuse("--rates", "not given, nor --rates-file or --scenarios", "one of the three");
}

std::vector<scenario> combinations(const scenario_words& w, const latency_table& t,
                                   const std::vector<duration>& slos, double scale) {
  if (w.scenarios != "all")
    refuse("--scenarios", in_quotes(w.scenarios), "all", errc::unknown_name);
  std::vector<double> levels;
  for (const std::string& l : to_list("--levels", w.levels))
    levels.push_back(to_number("--levels", l, rate_range) * scale);
  const std::vector<std::size_t> models = to_models(w.models, t);
  double n = 1;
  for (std::size_t i = 0; i < models.size(); ++i) n *= static_cast<double>(levels.size());
  if (n > static_cast<double>(most_scenarios))
    refuse("--scenarios",
           std::to_string(levels.size()) + " rates of " + std::to_string(models.size()) + " models",
           "at most " + std::to_string(most_scenarios) + " combinations");
  std::vector<scenario> all;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    scenario s;
    bool any = false;
    for (std::size_t m = 0, rest = i; m < models.size(); ++m, rest /= levels.size()) {
      s.demands.push_back({models[m], levels[rest % levels.size()], slos[models[m]]});
      any |= s.demands.back().rate > 0;
    }
    if (any) all.push_back(std::move(s));
  }
  if (all.empty()) refuse("--levels", "no rate above 0", "one at least");
  return all;
}

} // namespace

std::vector<scenario> read_scenarios(const scenario_words& w, const latency_table& t,
                                     const std::vector<duration>& slos) {
  const double scale = to_number("--rate-scale", w.scale, {0, 1e9, true, "times"});
  check_source(w);
  if (!w.scenarios.empty()) return combinations(w, t, slos, scale);
  std::vector<named_rates> named;
  if (w.file.empty()) {
    named.emplace_back();
    for (const auto& [m, r] : parts::to_model_numbers("--rates", w.rates, t, rate_range))
      named[0].rates.emplace_back(m, r);
  } else {
    named = read_rates(gsched::csv_table(parts::to_file("--rates-file", w.file, "a CSV file"),
                                         rate_columns(), more_rate_columns()),
                       t);
  }
  std::vector<scenario> all;
  for (named_rates& n : named) {
    scenario s{std::move(n.name), {}};
    for (const auto& [m, r] : n.rates) s.demands.push_back({m, r * scale, slos[m]});
    all.push_back(std::move(s));
  }
  return all;
}

} // namespace plan
