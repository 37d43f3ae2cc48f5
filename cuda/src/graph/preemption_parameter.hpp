// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/preemption.hpp>

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace gsched::cuda {

/// Where among a kernel's arguments its preemption is, and how it was captured.
struct preemption_parameter {
  std::size_t argument = 0;
  preemption captured{};
};

/// Of the arguments one by one, as a program_node has them; `attributes` as well. Unset where there
/// is none, or one that never leaves. `where`: "graph resnet18: operation 3".
///
/// Errors   bad_graph, one line, for a kernel that leaves and cannot be taken up again block by
///          block: one with a grid-wide barrier (a cooperative launch), one in clusters, or of more
///          than max_leaving_blocks.
[[nodiscard]] std::optional<preemption_parameter>
find_preemption(const std::string& where, CUfunction function, std::span<void* const> arguments,
                std::span<const CUlaunchAttribute> attributes, std::uint64_t blocks,
                std::uint32_t cluster_blocks);

} // namespace gsched::cuda
