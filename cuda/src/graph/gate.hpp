// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gsched::cuda {

/// What the host asks of the gates of a graph, in one word that they read whole.
struct gate_order {
  std::uint32_t hold = 0; ///< 20 bits; 0: pass; else which time it is that the lane yields
  std::uint32_t beat = 0; ///< 20 bits; changes while the host is alive
  /// 24 bits; how long a gate stands without a change of beat; 0: without limit.
  std::uint32_t lease_us = 0;

  static constexpr std::uint32_t most_turns = (1u << 20) - 1;
  static constexpr std::uint32_t most_lease_us = (1u << 24) - 1;

  [[nodiscard]] constexpr std::uint64_t word() const noexcept {
    return std::uint64_t{lease_us} << 40 | std::uint64_t{beat & most_turns} << 20 |
           (hold & most_turns);
  }
};

/// The words through which the host holds a graph that has gates, in pinned memory.
///
/// A gate is a kernel of one thread that runs beside kernels of the graph, and later kernels wait
/// for it. Where `order` asks for no hold, it ends at once. Else it stands: it writes to
/// `standing`, and ends when `order` asks for no hold. So what waits for it has not started. Two
/// gates of a graph at most stand at a time, one after the other in its order: they alternate in
/// `standing`.
///
/// A gate stands on a lease. Where the host's beat has not changed for the lease, by the GPU's
/// clock, the gate writes to `expired` and ends, and the later gates of that launch pass. So a host
/// that is stopped, or that waits in the driver for what the graph keeps, does not hold the GPU.
struct gate_line {
  std::uint64_t order = 0;        ///< gate_order::word(); written by the host alone
  std::uint64_t standing[2] = {}; ///< 0, or (hold << 32) | number of the gate
  std::uint32_t expired = 0;      ///< the last `hold` for which a lease has run out
};

/// A word of `standing`: for which `hold` a gate stands, and its number in its graph.
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
/// A kernel of one thread that does nothing, without parameters: in a graph with gates it stands
/// for an empty node at which many branches meet.
[[nodiscard]] CUkernel meeting_kernel();

} // namespace gsched::cuda
