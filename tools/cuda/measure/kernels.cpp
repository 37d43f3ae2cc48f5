// SPDX-License-Identifier: Apache-2.0
#include "measure/beside.hpp"
#include "measure/row_file.hpp"
#include "measure/session.hpp"
#include "measure/whole_graph.hpp"

#include <gsched/cuda_tools/held_up.hpp>
#include <gsched/cuda_tools/probe.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace measure {

using namespace gsched;

namespace {

cuda::probe_options some_probe(cuda::probe_kind kind, std::uint32_t level, std::uint32_t blocks,
                               std::uint32_t threads = 0) {
  cuda::probe_options o;
  o.kind = kind;
  o.level = level;
  o.blocks = blocks;
  o.threads = threads;
  return o;
}

/// Blocks that only take room, on all SMs and on half of them; copies by more and more SMs; and what
/// keeps issue slots, L2 and shared memory busy.
std::vector<cuda::probe_options> beside_kernels(std::uint32_t sms,
                                                const std::vector<cuda::probe_kind>& kinds) {
  using kind = cuda::probe_kind;
  std::vector<cuda::probe_options> all{
      some_probe(kind::sleep, 0, 0),       some_probe(kind::sleep, 0, sms / 2),
      some_probe(kind::sleep, 0, 0, 1024), some_probe(kind::sleep, 0, sms / 2, 1024),
      some_probe(kind::copy, 0, sms / 8),  some_probe(kind::copy, 0, sms / 4),
      some_probe(kind::copy, 0, sms / 2),  some_probe(kind::copy, 0, 0),
      some_probe(kind::read, 0, 0),        some_probe(kind::write, 0, 0),
      some_probe(kind::shared, 8, 0),      some_probe(kind::fp32, 4, 0)};
  std::erase_if(all, [&](const cuda::probe_options& p) {
    return !kinds.empty() && std::find(kinds.begin(), kinds.end(), p.kind) == kinds.end();
  });
  return all;
}

} // namespace

part_report measure_kernels(session& s, double until) {
  constexpr double limit_us = 3000;
  constexpr std::size_t passes = 5;
  part_report report;
  report.name = "kernels";
  row_file file(s.how.out / "kernels.csv",
                {"probe", "model", "batch", "operation", "blocks", "threads", "alone_us",
                 "beside_us", "held_up"},
                3);
  const auto rows_of = [&](const measured_graph& graph, const cuda::probe_options& probe) {
    const launch_shape of_probe = cuda::probe(probe, s.gpu.sms).launch();
    const whole_graph whole(*graph.instances.front());
    std::vector<row_file::row> rows;
    for (const cuda::beside_operation& b :
         cuda::each_beside(whole.get(), probe, s.gpu.ordinal, limit_us, passes))
      rows.push_back({probe.name(), graph.model, std::to_string(graph.batch),
                      std::to_string(b.operation), std::to_string(of_probe.blocks()),
                      std::to_string(of_probe.threads_per_block()), us_text(b.alone_us),
                      us_text(b.us), b.held_up ? "1" : "0"});
    return rows;
  };
  measure_beside(s, report, file, beside_kernels(s.gpu.sms.count(), s.how.probes), until, rows_of);
  return report;
}

} // namespace measure
