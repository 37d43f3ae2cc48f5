// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/settings/neighbour_rules.hpp"

#include "common/cli/option_values.hpp"
#include "common/input/model_slowdowns.hpp"
#include "common/input/profile_catalogue.hpp"

#include <gsched/job/profile.hpp>

#include <algorithm>
#include <cstddef>

namespace gsched_server {

namespace {

gsched::corun_rule rule_for(const std::string& where, const common::slowdown_source& source,
                            std::span<const model_plan> models,
                            const gsched::architecture_limits& sm) {
  std::vector<gsched::profile> profiles;
  std::vector<common::neighbour_model> all;
  std::vector<gsched::corun_limit> limits;
  profiles.reserve(models.size());
  for (const model_plan& m : models) {
    profiles.push_back(common::load_model(m.kernels, sm));
    all.push_back({m.name, &profiles.back(), m.kernels});
    limits.push_back({m.name, m.slow_down_limit});
  }
  return rule_of(limits, source.how == common::slowdown_source::kind::pairs
                             ? paired_slowdowns(where, source, all)
                             : predicted_slowdowns("gsched_server", where, source, sm, all,
                                                   "PAIRS.csv as slow_downs"));
}

} // namespace

std::vector<std::shared_ptr<const gsched::corun_rule>>
neighbour_rules(const std::string& where, const std::string& source,
                std::span<const model_plan> models, std::span<const common::device_choice> devices,
                std::span<const gsched::architecture_limits> sms) {
  const auto is_limited = [](const model_plan& m) {
    return m.slow_down_limit < gsched::corun_limit::none;
  };
  if (std::ranges::none_of(models, is_limited)) return {};
  for (const model_plan& m : models)
    if (m.kernels.empty())
      common::refuse(where,
                     "nothing to tell the slow-downs of " + common::in_quotes(m.name) + " from",
                     "a profile beside its adaptor, of its kernels");
  const common::slowdown_source from =
      common::to_slowdown_source(where, source, "predicted, LAW.json or PAIRS.csv");
  std::vector<std::shared_ptr<const gsched::corun_rule>> all;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto same =
        std::ranges::find(devices.first(i), devices[i].device, &common::device_choice::device);
    const auto first = static_cast<std::size_t>(same - devices.begin());
    all.push_back(first < i ? all[first]
                            : std::make_shared<const gsched::corun_rule>(
                                  rule_for(where, from, models, sms[i])));
  }
  return all;
}

} // namespace gsched_server
