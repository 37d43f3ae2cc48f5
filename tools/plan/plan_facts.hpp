// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/question.hpp"

#include <gsched/partition/contention_interference.hpp>
#include <gsched/partition/plan.hpp>

#include <cstdint>
#include <optional>

namespace plan {

/// Whether partitions of a plan run at the same time on the same SMs.
[[nodiscard]] bool shares_sms(const gsched::partition_plan& p);

/// The same plan, with cycles as long as their batches take beside others, where that is longer.
[[nodiscard]] gsched::partition_plan
with_longer_cycles(const gsched::partition_plan& p, const question& q,
                   const gsched::contention_interference& beside);

/// The largest predicted latency over its SLO; with interference in cycles as long as it makes
/// them.
[[nodiscard]] double worst_of(const gsched::partition_plan& p, const question& q,
                              const std::optional<gsched::contention_interference>& beside);

} // namespace plan
