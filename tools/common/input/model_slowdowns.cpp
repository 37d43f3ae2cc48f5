// SPDX-License-Identifier: Apache-2.0
#include "common/input/model_slowdowns.hpp"

#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/input/measured_on.hpp"
#include "common/input/table_options.hpp"

#include <gsched/core/id.hpp>
#include <gsched/interference/beyond_fit.hpp>
#include <gsched/interference/corun_pairs.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/pair_slowdowns.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/io/coefficients_json.hpp>
#include <gsched/io/corun_csv.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <vector>

namespace common {

using namespace gsched;

slowdown_source to_slowdown_source(const std::string& where, const std::string& text,
                                   const std::string& expected) {
  slowdown_source s{.text = text};
  if (text == "predicted") {
    s.file = to_law_file(where, "h200");
    return s;
  }
  s.file = to_file(where, text, expected);
  if (s.file.extension() != ".json") s.how = slowdown_source::kind::pairs;
  record_input(where, s.file);
  return s;
}

found_slowdowns predicted_slowdowns(const char* program, const std::string& where,
                                    const slowdown_source& law, const architecture_limits& sm,
                                    std::span<const neighbour_model> models,
                                    const std::string& other) {
  const interference_coefficients by = load_coefficients(law.file);
  std::vector<measured_file> files{{where, law.file}};
  std::vector<kernel_chain> chains;
  for (const neighbour_model& m : models) {
    files.push_back({"profile of " + m.name, m.file});
    if (!has_counters(*m.profile))
      refuse(where, "no counters of the kernels of " + in_quotes(m.name) + " to predict from",
             "a profile with counters, as measure writes, or " + other);
    chains.push_back(chain_of(*m.profile, sm, solo_metrics{}));
  }
  check_machines(program, files);
  const std::vector<std::vector<double>> slow = all_pair_slowdowns(chains, by);
  found_slowdowns found(law.text, models.size());
  found.beyond = all_pairs_beyond_fit(by.seen, chains);
  for (std::size_t i = 0; i < models.size(); ++i)
    for (std::size_t j = 0; j < models.size(); ++j) found.by[i][j] = slow[i][j];
  return found;
}

void warn_of_extrapolation(const char* program, std::span<const neighbour_model> models,
                           const found_slowdowns& found) {
  std::vector<std::string> names;
  for (const neighbour_model& m : models) names.push_back(m.name);
  if (const std::string line = line_of_pairs(found.beyond, names); !line.empty())
    fmt::print(stderr, "{}: slow-downs predicted beyond what the fit has seen: {}\n", program,
               line);
}

found_slowdowns paired_slowdowns(const std::string& where, const slowdown_source& pairs,
                                 std::span<const neighbour_model> models) {
  found_slowdowns found(pairs.text, models.size());
  bool any = false;
  const sm_count device = models.empty() ? sm_count{} : models.front().profile->sms;
  const named_slowdowns measured = slowdowns_by_name(load_corun_pairs(pairs.file, device), device);
  for (std::size_t i = 0; i < models.size(); ++i)
    for (std::size_t j = 0; j < models.size(); ++j) {
      const auto by =
          measured.find({models[i].profile->full_name(), models[j].profile->full_name()});
      if (by == measured.end()) continue;
      any = true;
      found.by[i][j] = by->second;
    }
  if (!any)
    refuse(where, in_quotes(pairs.text) + " has no pair of the models that shares all SMs",
           models.empty() ? "models" : "one of " + models.front().name);
  return found;
}

corun_rule rule_of(std::span<const corun_limit> models, const found_slowdowns& found) {
  std::vector<corun_slowdown> pairs;
  for (std::size_t i = 0; i < models.size(); ++i)
    for (std::size_t j = 0; j < models.size(); ++j)
      if (const std::optional<double> by = found.by[i][j])
        pairs.push_back({models[i].model, models[j].model, *by});
  return corun_rule(models, pairs);
}

} // namespace common
