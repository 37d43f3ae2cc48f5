// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/models.hpp"

#include <gsched/core/error.hpp>
#include <gsched/job/profile_json.hpp>
#include <gsched/occupancy/calculator.hpp>

#include <utility>

namespace serve_mix {

std::vector<gsched::profile> load_models(const options& from,
                                         const gsched::architecture_limits& sm) {
  std::vector<gsched::profile> models;
  for (const mix_entry& m : from.mix) {
    gsched::profile p = gsched::read_profile(m.profile);
    try {
      gsched::check_fits(p, [&](const gsched::launch_shape& launch) {
        return gsched::max_blocks_per_sm(sm, launch);
      });
    } catch (const gsched::error& e) {
      throw gsched::error(gsched::errc::does_not_fit, m.profile.string() + ": " + e.what());
    }
    models.push_back(std::move(p));
  }
  return models;
}

} // namespace serve_mix
