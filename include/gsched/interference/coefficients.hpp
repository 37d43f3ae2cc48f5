// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/linear_law.hpp>
#include <gsched/interference/sharing_law.hpp>

namespace gsched {

/// All fitted coefficients of one kind of GPU.
struct interference_coefficients {
  linear_law disjoint{};        ///< graphs on disjoint SMs
  linear_law shared{};          ///< graphs that share all SMs
  sharing_law shared_kernels{}; ///< the same, kernel by kernel
  bool operator==(const interference_coefficients&) const noexcept = default;
};

} // namespace gsched
