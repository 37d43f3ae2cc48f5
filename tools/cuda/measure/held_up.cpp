// SPDX-License-Identifier: Apache-2.0
#include "measure/held_up.hpp"

#include "measure/beside.hpp"
#include "measure/probe_list.hpp"
#include "measure/row_file.hpp"
#include "measure/whole_graph.hpp"

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
  constexpr double limit_us = 3000;
  part_report report;
  report.name = "held up";
  row_file file(
      s.how.out / "held_up.csv",
      {"probe", "model", "batch", "operation", "predicted", "measured", "alone_us", "beside_us"},
      3);
  std::size_t kernels = 0;
  std::size_t wrong = 0;
  const auto rows_of = [&](const measured_graph& graph, const cuda::probe_options& probe) {
    const cuda::program& program = *graph.instances.front();
    const launch_shape resident = cuda::probe(probe, s.gpu.sms).launch();
    const whole_graph whole(program);
    std::vector<row_file::row> rows;
    for (const cuda::beside_operation& b :
         cuda::each_beside(whole.get(), probe, s.gpu.ordinal, limit_us, 1, s.progressed())) {
      const launch_shape& launch = program.host().operations()[b.operation].launch;
      const std::string predicted = lacking(occupancy_beside(s.gpu.sm, resident, 1, launch));
      ++kernels;
      if (predicted.empty() == b.held_up) ++wrong;
      rows.push_back({probe.name(), graph.model, std::to_string(graph.batch),
                      std::to_string(b.operation), predicted, b.held_up ? "1" : "0",
                      us_text(b.alone.median), us_text(b.beside.median)});
    }
    return rows;
  };
  std::vector<cuda::probe_options> probes = neighbours();
  std::erase_if(probes, [&](const cuda::probe_options& p) { return !s.how.probes.has(p.kind); });
  measure_beside(s, report, file, probes, until, rows_of);
  if (kernels > 0)
    report.notes.push_back(
        fmt::format("of {} kernels beside a block on each SM, the calculator was "
                    "wrong for {}",
                    kernels, wrong));
  return report;
}

} // namespace measure
