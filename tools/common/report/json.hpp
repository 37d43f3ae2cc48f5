// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/report/latency.hpp"

#include <gsched/core/time.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <vector>

namespace common {

using json = nlohmann::ordered_json;

/// The double that prints as these nanoseconds in microseconds: 2.367, not 2.3670000000000004.
[[nodiscard]] inline double us(gsched::duration d) { return static_cast<double>(d.count()) / 1e3; }

/// To a millionth, so that the last bits of an intermediate result do not show.
[[nodiscard]] inline double rounded(double x) { return std::round(x * 1e6) / 1e6; }

[[nodiscard]] inline json latency_json(const std::vector<gsched::duration>& latencies) {
  const latency_summary s = summarize(latencies);
  return {{"mean", us(s.mean)},
          {"p50", us(s.p50)},
          {"p90", us(s.p90)},
          {"p99", us(s.p99)},
          {"max", us(s.max)}};
}

} // namespace common
