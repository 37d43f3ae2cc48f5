// SPDX-License-Identifier: Apache-2.0
#include "measure/solo_row.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/replay_law.hpp>
#include <gsched/job/kernel_counters.hpp>
#include <gsched/job/operation.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace measure {

using namespace gsched;

row_file::row solo_metrics_columns() {
  return {"model",  "batch",       "solo_us",     "dram_bytes",       "l2_sectors", "dram_pct",
          "l2_pct", "sm_pct",      "ipc",         "warps_active_pct", "l1_pct",     "sm_active_pct",
          "starts", "exposed_pct", "solo_p10_us", "solo_p90_us"};
}

row_file::row solo_metrics_row(const profile& of, const cuda::replay_times& alone) {
  const double solo_us = alone.median;
  constexpr double sector = 32; // bytes
  constexpr double most_ipc = 4;
  kernel_counters sum; // but for bytes: over time, in microseconds
  double busiest = 0, starts = 0, exposed = 0;
  std::size_t kernels = 0;
  for (std::size_t i = 0; i < of.operations.size(); ++i) {
    const profile_operation& op = of.operations[i];
    if (op.work.kind != operation_kind::kernel) continue;
    if (!op.counters)
      throw error(errc::bad_profile, detail::operation_place(of, i) + " (" + op.name +
                                         "): no counters, expected those of each kernel");
    const kernel_counters& k = *op.counters;
    const pipe_use& p = k.pipes;
    const double active_us = k.sm_active * k.us;
    sum.sm_active += active_us;
    sum.warps_active += k.warps_active * active_us;
    sum.ipc += k.ipc * active_us;
    sum.l1 += k.l1 * k.us;
    sum.l2 += k.l2 * k.us;
    sum.dram += k.dram * k.us;
    sum.l2_bytes += k.l2_bytes;
    sum.dram_bytes += k.dram_bytes;
    busiest += active_us *
               std::max({k.ipc / most_ipc, p.alu, p.fma, p.fp16, p.fp64, p.tensor, p.xu, p.lsu});
    starts += replay_law::starts(static_cast<double>(op.work.launch.blocks()));
    exposed += replay_law::exposed(demand_of(k).busiest()) * to_us(op.work.expected);
    ++kernels;
  }
  if (kernels == 0)
    throw error(errc::bad_profile, of.full_name() + ": no kernel, expected one to count");
  const auto percent = [&](double us) { return fmt::format("{:.3f}", 100 * us / solo_us); };
  return {of.model,
          std::to_string(of.batch),
          us_text(solo_us),
          fmt::format("{:.0f}", sum.dram_bytes),
          fmt::format("{:.0f}", sum.l2_bytes / sector),
          percent(sum.dram),
          percent(sum.l2),
          percent(busiest),
          fmt::format("{:.3f}", sum.ipc / solo_us),
          percent(sum.warps_active),
          percent(sum.l1),
          percent(sum.sm_active),
          fmt::format("{:.1f}", starts),
          percent(std::min(exposed, solo_us)),
          us_text(alone.p10),
          us_text(alone.p90)};
}

} // namespace measure
