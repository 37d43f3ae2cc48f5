// SPDX-License-Identifier: Apache-2.0
#include "common/simulated.hpp"

#include "common/leaving_profile.hpp"

#include <gsched/io/preset_json.hpp>

namespace common {

simulated_inference::simulated_inference(const gsched::profile& of, gsched::leaving leaves,
                                         std::uint32_t instances)
    : in_(of.input), out_(of.output) {
  for (std::uint32_t i = 0; i < instances; ++i)
    graphs_.push_back(gsched::to_program(leaving_profile(of, leaves)));
}

simulated_gpu find_simulated(const device_choice& which) {
  simulated_gpu found;
  if (which.preset.empty()) {
    found.preset = gsched::sim::preset_by_name(which.device);
  } else {
    gsched::sim::preset_provenance measured_on;
    found.preset = gsched::sim::read_preset(which.preset, &measured_on);
    found.name = measured_on.gpu;
  }
  if (which.queues) found.preset.hardware_queues = *which.queues;
  return found;
}

} // namespace common
