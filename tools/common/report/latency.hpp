// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <vector>

namespace common {

/// Exact percentiles, by nearest rank over all values; zeros for no values.
struct latency_summary {
  gsched::duration mean{};
  gsched::duration p50{};
  gsched::duration p90{};
  gsched::duration p99{};
  gsched::duration max{};
};
[[nodiscard]] latency_summary summarize(std::vector<gsched::duration> latencies);

} // namespace common
