// SPDX-License-Identifier: Apache-2.0
#include "common/input/shared_sm_options.hpp"

#include "common/cli/option_values.hpp"
#include "common/input/measured_on.hpp"
#include "common/input/profile_catalogue.hpp"

#include <gsched/io/machine_json.hpp>
#include <gsched/sim/preset.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace common {

std::shared_ptr<const gsched::shared_sm_slowdowns>
load_shared_sms(const std::vector<std::string>& profiles, const std::string& table_name,
                const gsched::latency_table& table, const gsched::solo_table& solo,
                std::span<const gsched::model_demand> demands,
                const gsched::interference_coefficients& law) {
  const std::optional<gsched::machine> found = gsched::machine_of(table_name);
  const gsched::sim::preset usual = gsched::sim::h200();
  const gsched::architecture_limits sm = found ? gsched::limits_of(*found) : usual.sm;
  std::vector<gsched::profile> kernels;
  std::set<std::string> wanted;
  for (const gsched::model_demand& d : demands) wanted.insert(table.name(d.model));
  const profile_catalogue known(profiles);
  for (const auto& [name, file] : known.files()) {
    const std::string model = name.substr(0, name.rfind("_b"));
    if (!wanted.contains(model)) continue;
    kernels.push_back(load_model(file, sm));
    if (found) check_device(kernels.back(), *found);
  }
  for (const std::string& model : wanted)
    if (std::none_of(kernels.begin(), kernels.end(),
                     [&](const gsched::profile& p) { return p.model == model; }))
      refuse("--profiles", "no profile of " + model,
             "one at least, to predict what it does on shared SMs", gsched::errc::unknown_name);
  return std::make_shared<gsched::shared_sm_slowdowns>(table, solo, std::move(kernels), law, sm,
                                                       found ? found->sms : usual.sms);
}

} // namespace common
