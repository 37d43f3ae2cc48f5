// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/linear_law.hpp>
#include <gsched/interference/sharing_law.hpp>

namespace gsched {

/// All that is fitted of one kind of GPU.
struct interference_coefficients {
  linear_law disjoint{};        ///< graphs on SMs of their own
  linear_law shared{};          ///< graphs that both may use all SMs
  sharing_law shared_kernels{}; ///< the same, kernel by kernel
  bool operator==(const interference_coefficients&) const noexcept = default;
};

} // namespace gsched
