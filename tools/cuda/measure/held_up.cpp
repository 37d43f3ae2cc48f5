// SPDX-License-Identifier: Apache-2.0
#include "measure/held_up.hpp"

#include "measure/beside.hpp"
#include "measure/probe_list.hpp"
#include "measure/row_file.hpp"
#include "measure/whole_graph.hpp"

#include <gsched/cuda_tools/held_up.hpp>
#include <gsched/cuda_tools/probe.hpp>
#include <gsched/occupancy/beside.hpp>
#include <gsched/occupancy/calculator.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace measure {

using namespace gsched;

part_report measure_held_up(session& s, double until) {
  constexpr double limit_us = 3000;
  constexpr std::size_t passes = 3;
  part_report report;
  report.name = "held up";
  row_file file(s.how.out / "held_up.csv",
                {"probe", "model", "batch", "operation", "predicted", "measured", "alone_us",
                 "beside_us", "alone_p10_us", "alone_p90_us", "beside_p10_us", "beside_p90_us"},
                3, 4);
  std::size_t kernels = 0;
  std::size_t wrong = 0;
  const auto rows_of = [&](const measured_graph& graph, const cuda::probe_options& probe) {
    const launch_shape resident = cuda::probe(probe, s.gpu.sms).launch();
    // On the SM that has fewest of its blocks.
    const auto on_each = std::min(static_cast<std::uint32_t>(resident.blocks() / s.gpu.sms.count()),
                                  max_blocks_per_sm(s.gpu.sm, resident));
    const whole_graph whole(*graph.instances.front());
    std::vector<row_file::row> rows;
    for (const cuda::beside_operation& b :
         cuda::each_beside(whole.get(), probe, s.gpu.ordinal, limit_us, passes, s.progressed())) {
      const std::string predicted(lacking(occupancy_beside(s.gpu.sm, resident, on_each, b.launch)));
      ++kernels;
      if (predicted.empty() == b.held_up) ++wrong;
      rows.push_back({probe.name(), graph.model, std::to_string(graph.batch),
                      std::to_string(b.operation), predicted, b.held_up ? "1" : "0",
                      us_text(b.alone.median), us_text(b.beside.median), us_text(b.alone.p10),
                      us_text(b.alone.p90), us_text(b.beside.p10), us_text(b.beside.p90)});
    }
    return rows;
  };
  std::vector<cuda::probe_options> probes =
      chosen(waiting_probes(s.gpu.sms, s.gpu.sm), s.how.probes);
  std::erase_if(probes, [](const cuda::probe_options& p) {
    return p.kind != cuda::probe_kind::sleep && p.kind != cuda::probe_kind::fp32;
  });
  measure_beside(s, report, file, probes, until, rows_of);
  if (kernels > 0)
    report.notes.push_back(
        fmt::format("of {} kernels beside blocks on each SM, the calculator was wrong "
                    "for {}",
                    kernels, wrong));
  return report;
}

} // namespace measure
