// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/preempt/preemption.hpp>

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace gsched::cuda {

/// The preemption parameter of a kernel: its index among the arguments, and its captured value.
struct preemption_parameter {
  std::size_t argument = 0;
  preemption captured{};
};

/// Finds the preemption parameter among `arguments`, one pointer for each parameter. Empty if there
/// is none, or if it never enables preemption. `where`: "graph resnet18: operation 3".
///
/// Errors   bad_graph, one line, for a preemptible kernel that cannot be resumed block by block:
///          with a grid barrier (a cooperative launch), in clusters, or of more than
///          max_preemptible_blocks.
[[nodiscard]] std::optional<preemption_parameter>
find_preemption(const std::string& where, CUfunction function, std::span<void* const> arguments,
                std::span<const CUlaunchAttribute> attributes, std::uint64_t blocks,
                std::uint32_t cluster_blocks);

} // namespace gsched::cuda
