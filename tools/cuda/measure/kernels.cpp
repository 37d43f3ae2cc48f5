// SPDX-License-Identifier: Apache-2.0
#include "measure/beside.hpp"
#include "measure/probe_list.hpp"
#include "measure/row_file.hpp"
#include "measure/session.hpp"
#include "measure/whole_graph.hpp"

#include <gsched/cuda_tools/held_up.hpp>
#include <gsched/cuda_tools/probe.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace measure {

using namespace gsched;

part_report measure_kernels(session& s, double until) {
  constexpr double limit_us = 3000;
  constexpr std::size_t passes = 5;
  part_report report;
  report.name = "kernels";
  row_file file(s.how.out / "kernels.csv",
                {"probe", "model", "batch", "operation", "blocks", "threads", "alone_us",
                 "beside_us", "held_up", "alone_p10_us", "alone_p90_us", "beside_p10_us",
                 "beside_p90_us"},
                3, 4);
  const auto rows_of = [&](const measured_graph& graph, const cuda::probe_options& probe) {
    const launch_shape of_probe = cuda::probe(probe, s.gpu.sms).launch();
    const whole_graph whole(*graph.instances.front());
    std::vector<row_file::row> rows;
    for (const cuda::beside_operation& b :
         cuda::each_beside(whole.get(), probe, s.gpu.ordinal, limit_us, passes, s.progressed()))
      rows.push_back({probe.name(), graph.model, std::to_string(graph.batch),
                      std::to_string(b.operation), std::to_string(of_probe.blocks()),
                      std::to_string(of_probe.threads_per_block()), us_text(b.alone.median),
                      us_text(b.beside.median), b.held_up ? "1" : "0", us_text(b.alone.p10),
                      us_text(b.alone.p90), us_text(b.beside.p10), us_text(b.beside.p90)});
    return rows;
  };
  measure_beside(s, report, file, chosen(kernel_probes(s.gpu.sms, s.gpu.l2.count()), s.how.probes),
                 until, rows_of);
  return report;
}

} // namespace measure
