// SPDX-License-Identifier: Apache-2.0
#include "parts/simulated.hpp"

#include <gsched/sim/preset_json.hpp>

namespace parts {

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

} // namespace parts
