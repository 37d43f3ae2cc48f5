// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "measure/gpu_works.hpp"
#include "measure/row_file.hpp"
#include "measure/session.hpp"
#include "measure/whole_graph.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda_tools/held_up.hpp>
#include <gsched/cuda_tools/probe.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace measure {

/// Each graph beside each probe, unless `file` has its rows, one a kernel, until the time is over.
/// `rows_of` measures the kernels of a graph beside a probe. What fails is left out, and noted,
/// unless the rows cannot be written.
template <class RowsOf>
void measure_beside(session& s, part_report& report, row_file& file,
                    const std::vector<gsched::cuda::probe_options>& probes, double until,
                    RowsOf rows_of) {
  std::vector<std::pair<const measured_graph*, gsched::cuda::probe_options>> missing;
  for (const measured_graph& graph : s.graphs) {
    const std::size_t kernels =
        gsched::cuda::kernels_beside(whole_graph(*graph.instances.front()).get());
    for (const gsched::cuda::probe_options& p : probes)
      if (file.has_all({p.name(), graph.model, std::to_string(graph.batch)}, kernels))
        report.kept += kernels;
      else
        missing.emplace_back(&graph, p);
  }
  steps all(s, report, missing.size(), until);
  for (const auto& [graph, probe] : missing) {
    if (!all.begin(fmt::format("{} beside {}", graph->name(), probe.name()))) break;
    try {
      const std::vector<row_file::row> rows = rows_of(*graph, probe);
      file.add(rows);
      report.measured += rows.size();
    } catch (const gsched::error& e) {
      if (e.code() == gsched::errc::io || !gpu_works()) throw;
      report.leave_out(graph->name() + " beside " + probe.name(), e.what());
    }
  }
}

} // namespace measure
