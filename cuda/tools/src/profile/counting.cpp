// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/counting.hpp>

#include "graph/measure/replay.hpp"
#include "profile/kernel_readings.hpp"
#include "profile/range_counters.hpp"
#include "profile/unseen.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/program.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace gsched::cuda {

counting_report count_kernels(CUgraph graph, const counting_options& how, profile& into) {
  constexpr int most_rounds = 99;
  if (how.rounds < 1 || how.rounds > most_rounds)
    throw error(errc::bad_option, "rounds: " + std::to_string(how.rounds) + ", expected 1 to " +
                                      std::to_string(most_rounds));
  static_cast<void>(driver());
  program_options plain;
  plain.name = into.full_name();
  plain.measure = false;
  const program p(graph, plain);
  if (p.host().size() != into.operations.size())
    throw error(errc::bad_profile,
                into.full_name() + ": " + std::to_string(into.operations.size()) +
                    " operations, expected the graph's " + std::to_string(p.host().size()));
  std::vector<std::size_t> kernels;
  std::vector<exec_owner> graphs;
  for (std::size_t i = 0; i < p.host().size(); ++i) {
    graphs.push_back(instantiate(graph_owner(p.make_range(i, i + 1, {})).get()));
    if (p.host().operations()[i].kind == operation_kind::kernel) kernels.push_back(i);
  }
  const stream_owner stream = make_stream("stream for counters");
  const auto run = [&](std::size_t i) {
    check(driver().cuGraphLaunch(graphs[i].get(), stream.get()), "counted operation");
    check(cudaStreamSynchronize(stream.get()), "counted operation");
  };
  for (std::size_t i = 0; i < graphs.size(); ++i) run(i); // loads modules, fills caches
  if (kernels.empty()) return {};

  const auto before = [&](std::size_t k) { // copies and sets since the kernel before this one
    for (std::size_t i = k == 0 ? 0 : kernels[k - 1] + 1; i < kernels[k]; ++i) run(i);
  };
  const std::size_t of_round = kernels.size() + 1; // the first range of each stays empty
  const auto rounds = static_cast<std::size_t>(how.rounds);
  const range_values counted =
      count_ranges(counters_of_kernels(), rounds * of_round,
                   {[&](std::size_t r) {
                      if (r % of_round > 0) before(r % of_round - 1);
                    },
                    [&](std::size_t r) {
                      if (r % of_round > 0) run(kernels[r % of_round - 1]);
                    },
                    into.full_name() + " (" + std::to_string(kernels.size()) + " kernels)"},
                   how.cupti_library);
  counting_report report;
  report.missing = counted.missing;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    profile_operation& o = into.operations[kernels[k]];
    const double us = std::max(0.001, to_us(o.work.expected));
    std::vector<kernel_counters> of_kernel;
    for (std::size_t first = 0; first < rounds * of_round; first += of_round)
      of_kernel.push_back(counters_of(counted.values[first + k + 1], counted.values[first], us,
                                      operation_text(into.full_name(), kernels[k], o.name)));
    const counted_rounds all = over_rounds(of_kernel);
    o.counters = all.median;
    o.counters_spread = all.spread;
    if (all.widest <= report.widest) continue;
    report.widest = all.widest;
    report.widest_of = detail::operation_place(into, kernels[k]) + ", " + all.widest_of;
  }
  return report;
}

} // namespace gsched::cuda
