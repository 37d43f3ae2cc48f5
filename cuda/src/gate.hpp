// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gsched::cuda {

/// Through which the host holds a graph that has gates, in pinned memory.
///
/// A gate is a kernel of one thread that runs beside a kernel of the graph, and the next kernel
/// waits for both. Where `hold` is 0 it ends at once. Else it stands, says so, and ends when `hold`
/// is 0 again; so what comes after it has not started. Two gates of a graph at most stand at a
/// time, one after the other in its order: they take turns in `standing`.
struct gate_line {
  std::uint32_t hold = 0;         ///< 0: go on; else which time it is that the lane yields
  std::uint64_t standing[2] = {}; ///< 0, or (hold << 32) | number of the gate
};

/// What a gate says: for which `hold` it stands, and its number in its graph.
struct gate_told {
  std::uint32_t hold = 0; ///< 0: no gate stands
  std::uint32_t gate = 0;
};
[[nodiscard]] constexpr gate_told told_by(std::uint64_t standing) noexcept {
  return {static_cast<std::uint32_t>(standing >> 32), static_cast<std::uint32_t>(standing)};
}

/// The kernel: (gate_line* line, std::uint32_t number).
/// As a CUkernel it can be placed on the SMs of any context.
[[nodiscard]] CUkernel gate_kernel();

} // namespace gsched::cuda
