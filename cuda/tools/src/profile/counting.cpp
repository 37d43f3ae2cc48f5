// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/counting.hpp>

#include "graph/measure/replay.hpp"
#include "profile/range_counters.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/program.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace gsched::cuda {

namespace {

/// A counter, and what becomes of its value.
struct reading {
  counter_name counter;
  double scale;                   ///< to the unit of the field
  double kernel_counters::*field; ///< null: one of the pipes
  double pipe_use::*pipe;
};

constexpr double percent = 0.01; ///< percentages become parts of peak

const std::vector<reading>& readings() {
  using k = kernel_counters;
  using p = pipe_use;
  static const std::vector<reading> all{
      {{{"gpu__time_duration.sum"}}, 1e-3, &k::us, nullptr},
      {{{"sm__cycles_active.avg.pct_of_peak_sustained_elapsed"}}, percent, &k::sm_active, nullptr},
      {{{"sm__warps_active.avg.pct_of_peak_sustained_active"}}, percent, &k::warps_active, nullptr},
      {{{"sm__inst_issued.avg.per_cycle_active"}}, 1, &k::ipc, nullptr},
      {{{"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"}},
       percent,
       &k::shared_memory,
       nullptr},
      {{{"l1tex__throughput.avg.pct_of_peak_sustained_elapsed"}}, percent, &k::l1, nullptr},
      {{{"lts__throughput.avg.pct_of_peak_sustained_elapsed"}}, percent, &k::l2, nullptr},
      {{{"lts__t_sector_hit_rate.pct"}}, percent, &k::l2_hit_rate, nullptr},
      {{{"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"}}, percent, &k::dram, nullptr},
      {{{"lts__t_bytes.sum"}}, 1, &k::l2_bytes, nullptr},
      {{{"dram__bytes.sum"}}, 1, &k::dram_bytes, nullptr},
      {{{"sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active"}, true},
       percent,
       nullptr,
       &p::alu},
      {{{"sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active"}, true},
       percent,
       nullptr,
       &p::fma},
      {{{"sm__inst_executed_pipe_fp16.avg.pct_of_peak_sustained_active",
         "sm__inst_executed_pipe_fma_type_fp16.avg.pct_of_peak_sustained_active"},
        true},
       percent,
       nullptr,
       &p::fp16},
      {{{"sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active"}, true},
       percent,
       nullptr,
       &p::fp64},
      // A tensor instruction keeps its pipe busy for many cycles.
      {{{"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
         "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"},
        true},
       percent,
       nullptr,
       &p::tensor},
      {{{"sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"}, true},
       percent,
       nullptr,
       &p::xu},
      {{{"sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active"}, true},
       percent,
       nullptr,
       &p::lsu},
  };
  return all;
}

kernel_counters counters_of(const std::vector<double>& values, const std::string& where) {
  kernel_counters made;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const reading& r = readings()[i];
    if (!std::isfinite(values[i]) || values[i] < 0)
      throw error(errc::device_failed, where + ": " + r.counter.names.front() + " is " +
                                           std::to_string(values[i]) + ", expected 0 or more");
    double value = values[i] * r.scale;
    if (r.scale == percent) value = std::min(value, 1.0); // passes differ: 100.3% was seen
    if (r.field == &kernel_counters::ipc) value = std::min(value, 4.0);
    (r.field != nullptr ? made.*r.field : made.pipes.*r.pipe) = value;
  }
  if (!(made.us > 0))
    throw error(errc::device_failed, where + ": the profiler saw no kernel, expected one");
  return made;
}

} // namespace

void count_kernels(CUgraph graph, const counting_options& how, profile& into) {
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
  if (kernels.empty()) return;

  std::vector<counter_name> wanted;
  for (const reading& r : readings()) wanted.push_back(r.counter);
  const auto before = [&](std::size_t k) { // copies and sets since the kernel before this one
    for (std::size_t i = k == 0 ? 0 : kernels[k - 1] + 1; i < kernels[k]; ++i) run(i);
  };
  const auto values = count_ranges(
      wanted, kernels.size(), {before, [&](std::size_t k) { run(kernels[k]); }}, how.cupti_library);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const std::string where = into.full_name() + ": operation " + std::to_string(kernels[k]);
    into.operations[kernels[k]].counters = counters_of(values[k], where);
  }
}

} // namespace gsched::cuda
