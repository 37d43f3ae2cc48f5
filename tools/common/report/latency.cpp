// SPDX-License-Identifier: Apache-2.0
#include "common/report/latency.hpp"

#include <algorithm>
#include <cstddef>

namespace common {

using gsched::duration;

latency_summary summarize(std::vector<duration> latencies) {
  latency_summary s;
  if (latencies.empty()) return s;
  std::sort(latencies.begin(), latencies.end());
  const auto n = static_cast<duration::rep>(latencies.size());
  duration::rep whole = 0, rest = 0; // of each value by n: exact, and no sum that overflows
  for (const duration d : latencies) {
    whole += d.count() / n;
    rest += d.count() % n;
  }
  s.mean = duration{whole + (rest + n / 2) / n};
  const auto rank = [&](duration::rep percent) { // nearest rank: the least value >= percent of all
    return latencies[static_cast<std::size_t>((n * percent + 99) / 100 - 1)];
  };
  s.p50 = rank(50);
  s.p90 = rank(90);
  s.p99 = rank(99);
  s.max = latencies.back();
  return s;
}

} // namespace common
