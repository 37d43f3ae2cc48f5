// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/cuda_tools/probe.hpp>
#include <gsched/occupancy/limits.hpp>

#include <cstdint>
#include <vector>

namespace measure {

/// How long a probe that is measured like a graph runs, in microseconds.
inline constexpr double probe_us = 200;

/// The probes that --probes names; without any, all that a measurement has.
struct probe_choice {
  std::vector<gsched::cuda::probe_kind> kinds;      ///< those that it has of these kinds
  std::vector<gsched::cuda::probe_options> exactly; ///< these too, with a level

  /// Whether --probes is not given.
  [[nodiscard]] bool all() const noexcept { return kinds.empty() && exactly.empty(); }
  /// Whether the usual probes of that kind are chosen.
  [[nodiscard]] bool has(gsched::cuda::probe_kind kind) const noexcept;
};

/// The probes of a GPU with so many SMs and an L2 of so many bytes: each kind at its usual level,
/// some at others, and copies by fewer and fewer SMs. Where an array of the usual level, which is
/// to stay in L2, takes more than a half of it, the level is smaller.
[[nodiscard]] std::vector<gsched::cuda::probe_options> probe_list(gsched::sm_count sms,
                                                                  std::uint64_t l2_bytes);

/// Whether it has the first level of its kind in probe_list, and a block on each SM.
[[nodiscard]] bool is_usual(const gsched::cuda::probe_options& p, std::uint64_t l2_bytes) noexcept;

/// Those beside which each kernel runs by itself: blocks that only take room, on all SMs and on
/// half of them; copies by more and more SMs; and what keeps issue slots, L2 and shared memory
/// busy.
[[nodiscard]] std::vector<gsched::cuda::probe_options> kernel_probes(gsched::sm_count sms,
                                                                     std::uint64_t l2_bytes);

/// Those beside which each kernel may have to wait: blocks that sleep, and that leave less and less
/// of the registers, the shared memory, the warps and the places for blocks of an SM; and two that
/// issue instructions.
[[nodiscard]] std::vector<gsched::cuda::probe_options>
waiting_probes(gsched::sm_count sms, const gsched::architecture_limits& sm);

/// Those that have a kernel, whose counters can be read: all but copies with the host.
[[nodiscard]] std::vector<gsched::cuda::probe_options>
with_kernels(std::vector<gsched::cuda::probe_options> probes);

/// Those that are chosen, each once, by its name.
[[nodiscard]] std::vector<gsched::cuda::probe_options>
chosen(const std::vector<gsched::cuda::probe_options>& all, const probe_choice& choice);

} // namespace measure
