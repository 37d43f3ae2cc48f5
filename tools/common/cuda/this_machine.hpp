// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/gpu.hpp>
#include <gsched/io/machine_json.hpp>

namespace common {

/// The machine with this GPU, as of today, without libraries.
/// Errors   as cuda::group_sizes.
[[nodiscard]] gsched::machine this_machine(const gsched::cuda::gpu& on);

} // namespace common
