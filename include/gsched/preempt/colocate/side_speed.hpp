// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gsched {

/// The time of an operation on a partition of `part` SMs, in nanoseconds: between two measured
/// sizes interpolated on a log-log line, otherwise inversely proportional to the SMs. `all`: the
/// SMs for which `expected` was measured.
[[nodiscard]] inline double ns_on(const operation& op, sm_count part, sm_count all) noexcept {
  const auto ns = static_cast<double>(op.expected.count());
  if (op.kind != operation_kind::kernel || ns <= 0 || part.count() >= all.count()) return ns;
  const double n = std::max<double>(1, part.count());
  double above = all.count(), above_ns = ns;
  for (std::size_t i = op.by_sms.size(); i-- > 0;) { // sizes rise
    const double sms = op.by_sms[i].sms.count();
    const auto at_ns = static_cast<double>(op.by_sms[i].time.count());
    if (sms >= above || sms < 1 || at_ns <= 0) continue;
    if (sms <= n)
      return at_ns * std::pow(above_ns / at_ns, std::log(n / sms) / std::log(above / sms));
    above = sms;
    above_ns = at_ns;
  }
  return above_ns * above / n;
}

/// The speed of a program on a partition, as a fraction of its speed on all SMs.
[[nodiscard]] inline double speed_on(const program& p, sm_count part, sm_count all) noexcept {
  double ns = 0;
  for (const operation* op : p.range(0, p.size())) ns += ns_on(*op, part, all);
  return ns > 0 ? static_cast<double>(p.expected().count()) / ns : 0;
}

} // namespace gsched
