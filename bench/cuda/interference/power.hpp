// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda_tools/power.hpp>
#include <gsched/cuda_tools/probe.hpp>
#include <gsched/cuda_tools/replay_times.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace interference {

/// Work that draws power; none: the GPU is idle.
struct power_load {
  std::string name;
  std::optional<gsched::cuda::probe_options> probe{};
};

/// The loads of the suite `power`: idle, one block, fp32, fp64, tensor, one block of tensor, copies
/// of DRAM.
[[nodiscard]] std::vector<power_load> power_loads();

/// A load on all SMs, and beside a victim (fp32, which needs nothing but its SMs and their clock).
struct power_result {
  gsched::cuda::power_readings alone;  ///< the load by itself
  gsched::cuda::power_readings beside; ///< with the victim
  double load_mhz = 0; ///< SM clock that the load's own blocks counted, beside the victim
  gsched::cuda::replay_times victim;
  gsched::sm_count victim_sms{}, load_sms{};
};

/// Each phase lasts 1.5 times `seconds`; the last two thirds of it are sampled, as power and clocks
/// settle slowly.
/// Errors   as probe, partition and power_sampler.
[[nodiscard]] power_result measure_power(const power_load& load, int gpu, double victim_us,
                                         double seconds);

} // namespace interference
