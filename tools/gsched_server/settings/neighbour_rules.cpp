// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/settings/neighbour_rules.hpp"

#include "gsched_server/devices/serving_device.hpp"

#include "common/cli/option_values.hpp"
#include "common/input/model_slowdowns.hpp"
#include "common/input/profile_catalogue.hpp"

#include <gsched/job/profile.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace gsched_server {

namespace {

gsched::corun_rule rule_for(const settings& s, const common::slowdown_source& source,
                            const gsched::architecture_limits& sm) {
  std::vector<gsched::profile> profiles;
  std::vector<common::neighbour_model> all;
  std::vector<gsched::corun_limit> limits;
  profiles.reserve(s.models.size());
  for (const model_plan& m : s.models) {
    profiles.push_back(common::load_model(m.kernels, sm));
    all.push_back({m.name, &profiles.back(), m.kernels});
    limits.push_back({m.name, m.slow_down_limit});
  }
  const common::found_slowdowns found =
      source.how == common::slowdown_source::kind::pairs
          ? paired_slowdowns(s.slow_downs_at, source, all)
          : predicted_slowdowns("gsched_server", s.slow_downs_at, source, sm, all,
                                "PAIRS.csv as slow_downs");
  warn_of_extrapolation("gsched_server", all, found);
  return rule_of(limits, found);
}

} // namespace

std::vector<std::shared_ptr<const gsched::corun_rule>> neighbour_rules(const settings& s) {
  if (!s.limits_slow_downs()) return {};
  for (const model_plan& m : s.models)
    if (m.kernels.empty())
      common::refuse(s.slow_downs_at,
                     "nothing to tell the slow-downs of " + common::in_quotes(m.name) + " from",
                     "a profile beside its adaptor, of its kernels");
  const common::slowdown_source from =
      common::to_slowdown_source(s.slow_downs_at, s.slow_downs, "predicted, LAW.json or PAIRS.csv");
  std::vector<std::shared_ptr<const gsched::corun_rule>> all;
  for (std::size_t i = 0; i < s.devices.size(); ++i) {
    const auto same =
        std::ranges::find(s.devices, s.devices[i].device, &common::device_choice::device);
    const auto first = static_cast<std::size_t>(same - s.devices.begin());
    all.push_back(first < i ? all[first]
                            : std::make_shared<const gsched::corun_rule>(
                                  rule_for(s, from, sm_of(s.devices[i]))));
  }
  return all;
}

} // namespace gsched_server
