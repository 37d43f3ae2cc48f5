// SPDX-License-Identifier: Apache-2.0
#include "measure/held_up.hpp"
#include "measure/probe_list.hpp"
#include "measure/row_file.hpp"
#include "measure/whole_graph.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda_tools/held_up.hpp>
#include <gsched/cuda_tools/probe.hpp>
#include <gsched/occupancy/beside.hpp>

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace measure {

using namespace gsched;

namespace {

/// Sleeping probes that take more and more of an SM, and two that issue instructions.
std::vector<cuda::probe_options> neighbours() {
  std::vector<cuda::probe_options> all;
  for (const auto& [registers, kib] :
       std::array<std::array<std::uint32_t, 2>, 4>{{{0, 0}, {128, 0}, {0, 128}, {255, 200}}}) {
    cuda::probe_options o;
    o.kind = cuda::probe_kind::sleep;
    o.registers = registers;
    o.shared_bytes = kib * 1024;
    all.push_back(o);
  }
  for (const std::uint32_t chains : {2u, 4u}) {
    cuda::probe_options o;
    o.kind = cuda::probe_kind::fp32;
    o.level = chains;
    all.push_back(o);
  }
  return all;
}

const char* lacking(const occupancy_by_resource& o) {
  if (o.blocks() > 0) return "";
  return o.registers == 0 ? "registers"
         : o.shared == 0  ? "shared memory"
         : o.warps == 0   ? "warps"
                          : "blocks";
}

} // namespace

part_report measure_held_up(session& s, double until) {
  part_report report;
  report.name = "held up";
  row_file file(
      s.how.out / "held_up.csv",
      {"probe", "model", "batch", "operation", "predicted", "measured", "alone_us", "beside_us"},
      3);
  struct run_of {
    std::size_t graph;
    cuda::probe_options probe;
  };
  std::vector<run_of> missing;
  for (std::size_t g = 0; g < s.graphs.size(); ++g)
    for (const cuda::probe_options& p : neighbours())
      if (file.has({p.name(), s.graphs[g].model, std::to_string(s.graphs[g].batch)}))
        ++report.kept;
      else
        missing.push_back({g, p});
  std::size_t kernels = 0;
  std::size_t wrong = 0;
  { // its end completes the report
    steps all(s, report, missing.size(), until);
    for (const run_of& r : missing) {
      const measured_graph& graph = s.graphs[r.graph];
      if (!all.begin(fmt::format("{} beside {}", graph.name(), r.probe.name()))) break;
      try {
        const cuda::program& program = *graph.instances.front();
        const launch_shape resident = cuda::probe(r.probe, s.gpu.sms).launch();
        const whole_graph whole(program);
        std::vector<row_file::row> rows;
        for (const cuda::beside_operation& b :
             cuda::each_beside(whole.get(), r.probe, s.gpu.ordinal)) {
          const launch_shape& launch = program.host().operations()[b.operation].launch;
          const std::string predicted = lacking(occupancy_beside(s.gpu.sm, resident, 1, launch));
          ++kernels;
          if (predicted.empty() == b.held_up) ++wrong;
          rows.push_back({r.probe.name(), graph.model, std::to_string(graph.batch),
                          std::to_string(b.operation), predicted, b.held_up ? "1" : "0",
                          us_text(b.alone_us), us_text(b.us)});
        }
        file.add(rows);
        ++report.measured;
      } catch (const error& e) {
        if (cudaPeekAtLastError() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) throw;
        report.notes.push_back(graph.name() + " beside " + r.probe.name() +
                               " left out: " + e.what());
      }
    }
  }
  if (kernels > 0)
    report.notes.push_back(
        fmt::format("of {} kernels beside a block on each SM, the calculator was "
                    "wrong for {}",
                    kernels, wrong));
  return report;
}

} // namespace measure
