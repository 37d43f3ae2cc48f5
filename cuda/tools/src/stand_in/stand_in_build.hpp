// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/job/profile.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace gsched::cuda {

/// Adds a node in place of an operation's stand-in, depending on `after`; returns null to keep the
/// stand-in.
using stand_in_replacement = std::function<cudaGraphNode_t(std::size_t operation, cudaGraph_t graph,
                                                           std::span<const cudaGraphNode_t> after)>;

/// As make_stand_in, with replacements.
[[nodiscard]] program build_stand_in(const profile& of, const std::string& name,
                                     const stand_in_options& how,
                                     const stand_in_replacement& other);

/// The gap between the end of a stand-in and the start of the next one with which the program takes
/// as long as the profile's graph.
[[nodiscard]] duration stand_in_gap(const profile& of) noexcept;

} // namespace gsched::cuda
