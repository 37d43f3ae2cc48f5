// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gsched::cuda {

/// The host's order to the gates of a graph, in one word that they read atomically.
struct gate_order {
  std::uint32_t hold = 0; ///< 20 bits; 0: pass; else the lane's yield generation
  std::uint32_t beat = 0; ///< 20 bits; heartbeat: changes while the host is alive
  /// 24 bits; the time for which a gate stays closed without a change of `beat`; 0: no limit.
  std::uint32_t lease_us = 0;

  static constexpr std::uint32_t max_generation = (1u << 20) - 1;
  static constexpr std::uint32_t most_lease_us = (1u << 24) - 1;

  [[nodiscard]] constexpr std::uint64_t word() const noexcept {
    return std::uint64_t{lease_us} << 40 | std::uint64_t{beat & max_generation} << 20 |
           (hold & max_generation);
  }
};

/// The words in pinned memory by which the host controls the gates of a graph.
///
/// A gate is a kernel of one thread that runs beside kernels of the graph; later kernels depend on
/// it. If `order` has no hold, the gate ends at once. Otherwise it is closed: it writes to
/// `closed`, and ends when `order` has no hold, so that its dependents do not start before. At
/// most two gates of a graph are closed at a time, consecutive ones, which alternate in `closed`.
///
/// A gate stays closed for the time of a lease. If the host's beat does not change for that time,
/// by the GPU's clock, the gate writes to `expired` and ends, and the later gates of that launch
/// pass. A host that is stopped, or that waits in the driver for resources of the graph, therefore
/// does not block the GPU.
struct gate_line {
  std::uint64_t order = 0;      ///< gate_order::word(); written by the host only
  std::uint64_t closed[2] = {}; ///< 0: open; else (hold << 32) | number of the closed gate
  std::uint32_t expired = 0;    ///< the last `hold` whose lease has expired
};

/// A decoded word of `closed`.
struct gate_state {
  std::uint32_t hold = 0; ///< generation for which the gate is closed; 0: open
  std::uint32_t gate = 0; ///< number of the gate in its graph
};
[[nodiscard]] constexpr gate_state gate_state_of(std::uint64_t closed) noexcept {
  return {static_cast<std::uint32_t>(closed >> 32), static_cast<std::uint32_t>(closed)};
}

/// The gate, with parameters (gate_line* line, std::uint32_t number). As a CUkernel it can be
/// placed on the SMs of any context.
[[nodiscard]] CUkernel gate_kernel();
/// A kernel of one thread without parameters that does nothing. In a graph with gates it replaces
/// an empty node that joins many branches.
[[nodiscard]] CUkernel join_kernel();

} // namespace gsched::cuda
