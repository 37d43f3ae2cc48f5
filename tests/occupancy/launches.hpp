// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/occupancy/limits.hpp>

#include <cstdint>

namespace gsched::testing {

/// The limits of an SM, and a device of few of them.
inline const architecture_limits hopper = limits_for(9, 0);
inline constexpr sm_count few{4};

inline launch_shape shape(std::uint32_t threads, std::uint32_t registers, std::uint32_t shared) {
  launch_shape s;
  s.block.x = threads;
  s.registers_per_thread = registers;
  s.dynamic_shared_bytes = shared;
  return s;
}

} // namespace gsched::testing
