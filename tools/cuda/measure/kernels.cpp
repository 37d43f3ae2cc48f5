// SPDX-License-Identifier: Apache-2.0
#include "measure/row_file.hpp"
#include "measure/session.hpp"
#include "measure/whole_graph.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda_tools/held_up.hpp>
#include <gsched/cuda_tools/probe.hpp>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

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
  struct run_of {
    std::size_t graph;
    cuda::probe_options probe;
  };
  std::vector<run_of> missing;
  for (std::size_t g = 0; g < s.graphs.size(); ++g)
    for (const cuda::probe_options& p : beside_kernels(s.gpu.sms.count(), s.how.probes))
      if (file.has({p.name(), s.graphs[g].model, std::to_string(s.graphs[g].batch)}))
        ++report.kept;
      else
        missing.push_back({g, p});
  steps all(s, report, missing.size(), until);
  for (const run_of& r : missing) {
    const measured_graph& graph = s.graphs[r.graph];
    if (!all.begin(fmt::format("{} beside {}", graph.name(), r.probe.name()))) break;
    try {
      const launch_shape of_probe = cuda::probe(r.probe, s.gpu.sms).launch();
      const whole_graph whole(*graph.instances.front());
      std::vector<row_file::row> rows;
      for (const cuda::beside_operation& b :
           cuda::each_beside(whole.get(), r.probe, s.gpu.ordinal, limit_us, passes))
        rows.push_back({r.probe.name(), graph.model, std::to_string(graph.batch),
                        std::to_string(b.operation), std::to_string(of_probe.blocks()),
                        std::to_string(of_probe.threads_per_block()), us_text(b.alone_us),
                        us_text(b.us), b.held_up ? "1" : "0"});
      file.add(rows);
      ++report.measured;
    } catch (const error& e) {
      if (cudaPeekAtLastError() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) throw;
      report.notes.push_back(graph.name() + " beside " + r.probe.name() + " left out: " + e.what());
    }
  }
  return report;
}

} // namespace measure
