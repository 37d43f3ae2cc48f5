// SPDX-License-Identifier: Apache-2.0
#include "common/run/simulated_backend.hpp"

#include "common/run/preemptible_profile.hpp"

#include <gsched/io/preset_json.hpp>

namespace common {

simulated_inference::simulated_inference(const gsched::profile& of, gsched::preemptibility leaves,
                                         std::uint32_t instances)
    : in_(of.input), out_(of.output) {
  for (std::uint32_t i = 0; i < instances; ++i)
    graphs_.push_back(gsched::to_program(preemptible_profile(of, leaves)));
}

simulated_gpu simulated_gpu_of(const device_choice& which) {
  simulated_gpu found;
  if (which.preset.empty()) {
    found.preset = gsched::sim::preset_by_name(which.device);
  } else {
    gsched::preset_provenance measured_on;
    found.preset = gsched::load_preset(which.preset, &measured_on);
    found.name = measured_on.gpu;
  }
  if (which.queues) found.preset.hardware_queues = *which.queues;
  return found;
}

} // namespace common
