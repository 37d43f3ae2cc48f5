// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interference/pairs.hpp"

#include <gsched/interference/coefficients.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace interference {

/// How many groups may share the SMs, and which of these decisions are wrong.
struct decisions {
  std::size_t admitted = 0;
  std::size_t false_safe = 0;   ///< admitted, and a graph was slowed more than is safe
  std::size_t false_unsafe = 0; ///< refused, though none was
};

/// How one rule decides.
struct rule_result {
  std::string name;
  decisions as_many; ///< as the law admits
  decisions its_own; ///< by the rule's own limit
};

/// Decisions on groups that share all SMs: of the law, which admits a group if it predicts no
/// slow-down above `safe`, and of rules by one number. Each rule decides twice: it admits as many
/// groups as the law, those that it likes best, so that utilisation is equal; and those within its
/// own limit, which is a sum of 100%, or that of two graphs one is more of the one kind than of the
/// other, and one less.
///
/// Source   the rules are those of section 3 of Elvinger et al., SoCC 2025: the sum of achieved
///          occupancies (Usher), compute beside memory work (Orion), by amounts and by arithmetic
///          intensity, the number of SMs (REEF, Orion) and the time with a kernel on the GPU
///          (NVML).
/// Differs  an achieved occupancy is sm__warps_active on all SMs in the mean of the kernels' time;
///          of a graph without counters, its blocks' warps. Amounts are of issued instructions and
///          of DRAM traffic. For arithmetic intensity each kernel is compute- or memory-bound, by
///          the roofline of its busiest floating-point pipe.
///          A pipe's instructions are its operations, so an addition counts as a multiplication and
///          addition, and so does an integer multiplication, which the fp32 pipe does as well.
[[nodiscard]] std::vector<rule_result>
compare_rules(const group_set& groups, const gsched::interference_coefficients& c, double safe);

} // namespace interference
