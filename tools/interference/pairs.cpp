// SPDX-License-Identifier: Apache-2.0
#include "interference/pairs.hpp"

#include <gsched/core/error.hpp>
#include <gsched/interference/stand_in_chain.hpp>
#include <gsched/occupancy/limits.hpp>

#include <cstddef>

namespace interference {

using namespace gsched;

pair_set::pair_set(std::vector<corun_pair> rows, const solo_table& solo,
                   const profile_set& profiles, sm_count device, const std::string& file,
                   const std::string& solo_file) {
  const architecture_limits sm = limits_for(9, 0); // where the profiles that ship were captured
  for (corun_pair& row : rows) {
    known_pair p;
    p.shared = row.shares(device);
    for (std::size_t i = 0; i < 2; ++i) {
      const corun_side& s = row.side[i];
      const model_batch key{s.model, s.batch};
      const solo_metrics* const alone = solo.find(s.model, s.batch);
      if (alone == nullptr)
        throw error(errc::unknown_name, file + ": " + s.model + ", batch " +
                                            std::to_string(s.batch) + " has no row in " +
                                            solo_file + ", expected its solo metrics");
      models_.insert(s.model);
      p.takes[i] = *solo.rates(s.model, s.batch, s.solo);
      if (!p.shared) continue;
      const auto known = profiles.find(key);
      if (known == profiles.end())
        without_.insert(key);
      else if (known->second.sms != device)
        throw error(errc::bad_profile, known->second.full_name() + ": a profile of " +
                                           std::to_string(known->second.sms.count()) +
                                           " SMs, expected the GPU's " +
                                           std::to_string(device.count()));
      if (!stand_ins_.contains(key)) {
        stand_ins_.emplace(key, stand_in_chain(*alone, device));
        chains_.emplace(key, known == profiles.end() ? stand_ins_.at(key)
                                                     : chain_of(known->second, sm, *alone));
      }
      p.chains[i] = &chains_.at(key);
      p.stand_ins[i] = &stand_ins_.at(key);
    }
    p.row = std::move(row);
    pairs_.push_back(std::move(p));
  }
}

} // namespace interference
