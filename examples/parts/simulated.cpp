// SPDX-License-Identifier: Apache-2.0
#include "parts/simulated.hpp"

#include <gsched/sim/preset_json.hpp>

#include <chrono>

namespace parts {

namespace {

/// What the stand-ins of a real GPU have: a look at the flag every microsecond.
constexpr gsched::duration between_checkpoints = std::chrono::microseconds{1};

gsched::program leaving_program(gsched::profile p, gsched::leaving how) {
  for (gsched::profile_operation& op : p.operations) {
    if (op.work.kind != gsched::operation_kind::kernel) continue;
    op.work.leaves = how;
    if (how == gsched::leaving::at_checkpoints) op.work.checkpoint = between_checkpoints;
  }
  return gsched::to_program(p);
}

} // namespace

simulated_inference::simulated_inference(const gsched::profile& of, gsched::leaving leaves,
                                         std::uint32_t instances)
    : in_(of.input), out_(of.output) {
  for (std::uint32_t i = 0; i < instances; ++i) graphs_.push_back(leaving_program(of, leaves));
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

} // namespace parts
