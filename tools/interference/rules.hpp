// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interference/pairs.hpp"

#include <gsched/interference/coefficients.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace interference {

/// How one rule decides which groups may share the SMs.
struct rule_result {
  std::string name;
  std::size_t admitted = 0;
  std::size_t false_safe = 0;   ///< admitted, and a graph was slowed more than is safe
  std::size_t false_unsafe = 0; ///< refused, though none was
};

/// Decisions on groups that share all SMs: of the law, which admits a group if it predicts no
/// slow-down above `safe`, and of rules by one number. Each rule admits as many groups as the law,
/// those that it likes best, so that utilisation is equal.
///
/// Source   the rules are those of section 3 of Elvinger et al., SoCC 2025: the sum of achieved
///          occupancies (Usher), compute beside memory work (Orion), the number of SMs (REEF, Orion)
///          and the time with a kernel on the GPU (NVML).
/// Differs  the ratio of issued instructions to DRAM traffic stands for arithmetic intensity.
[[nodiscard]] std::vector<rule_result>
compare_rules(const group_set& groups, const gsched::interference_coefficients& c, double safe);

} // namespace interference
