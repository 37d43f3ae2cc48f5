// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/graph/program_samples.hpp"

#include <gsched/cuda/program.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gsched::testing {

/// Programs that change an arena step by step. An operation that is skipped, run twice or run too
/// early changes the result. Each kernel takes some microseconds.
///
/// A chain of kernels, with a copy and a set among them.
[[nodiscard]] cuda::program make_chain(std::string name, const arena& on);
/// Three branches that join and fork again.
[[nodiscard]] cuda::program make_forks(std::string name, const arena& on);
/// Preemptible kernels, at checkpoints and between blocks, with more blocks than a GPU holds.
[[nodiscard]] cuda::program make_preemptible_steps(std::string name, const arena& on);
/// Preemptible kernels of both kinds, and other kernels.
[[nodiscard]] cuda::program make_mixed(std::string name, const arena& on);
/// Preemptible kernels with checkpoints in divergent code.
[[nodiscard]] cuda::program make_divergent(std::string name, const arena& on);
/// Two kernels, from the first row by the second to the third, and their output for a first row.
[[nodiscard]] cuda::program make_two_steps(std::string name, const arena& on);
[[nodiscard]] std::vector<std::uint32_t> two_steps(const std::vector<std::uint32_t>& row);

} // namespace gsched::testing
