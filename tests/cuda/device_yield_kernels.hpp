// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/program_samples.hpp"

#include <gsched/cuda/program.hpp>

#include <string>

namespace gsched::testing {

/// Programs that change an arena step by step, so that an operation left out, run twice or run too
/// early gives other words; each kernel takes some microseconds.
///
/// Kernels one after the other, with a copy and a set among them.
[[nodiscard]] cuda::program make_chain(std::string name, const arena& on);
/// Three branches that join and fork again.
[[nodiscard]] cuda::program make_forks(std::string name, const arena& on);
/// Kernels that leave, at checkpoints and between blocks, more of their blocks than a GPU holds.
[[nodiscard]] cuda::program make_leaving(std::string name, const arena& on);
/// Some that leave, in both ways, and some that do not.
[[nodiscard]] cuda::program make_mixed(std::string name, const arena& on);
/// Kernels that leave, with checkpoints in divergent code.
[[nodiscard]] cuda::program make_half_leaving(std::string name, const arena& on);

} // namespace gsched::testing
