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
#include <cstdint>
#include <utility>
#include <vector>

namespace gsched::cuda {

namespace {

/// What a counter's value is an average or a sum over. A range begins before its kernel and ends
/// after it.
enum class counted_over : std::uint8_t {
  active,  ///< cycles in which an SM had a warp
  elapsed, ///< the whole range
  sum      ///< not an average
};

/// A counter, and the field that its value becomes.
struct reading {
  counter_name counter;
  double scale; ///< to the unit of the field
  counted_over over;
  double kernel_counters::*field = nullptr; ///< null: one of the pipes
  double pipe_use::*pipe = nullptr;
};

constexpr double percent = 0.01; ///< to a part of peak
constexpr std::size_t range_us = 0;

const std::vector<reading>& readings() {
  using k = kernel_counters;
  using p = pipe_use;
  using enum counted_over;
  const auto use = [](const char* name, double p::*pipe, const char* otherwise = nullptr) {
    counter_name c{{name}, true};
    if (otherwise != nullptr) c.names.push_back(otherwise);
    return reading{std::move(c), percent, active, nullptr, pipe};
  };
  static const std::vector<reading> all{
      {{{"gpu__time_duration.sum"}}, 1e-3, sum, &k::us},
      {{{"sm__cycles_active.avg.pct_of_peak_sustained_elapsed"}}, percent, elapsed, &k::sm_active},
      {{{"sm__warps_active.avg.pct_of_peak_sustained_active"}}, percent, active, &k::warps_active},
      {{{"sm__inst_issued.avg.per_cycle_active"}}, 1, active, &k::ipc},
      {{{"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"}},
       percent,
       elapsed,
       &k::shared_memory},
      {{{"l1tex__throughput.avg.pct_of_peak_sustained_elapsed"}}, percent, elapsed, &k::l1},
      {{{"lts__throughput.avg.pct_of_peak_sustained_elapsed"}}, percent, elapsed, &k::l2},
      {{{"lts__t_sector_hit_rate.pct"}}, percent, active, &k::l2_hit_rate},
      {{{"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"}}, percent, elapsed, &k::dram},
      {{{"lts__t_bytes.sum"}}, 1, sum, &k::l2_bytes},
      {{{"dram__bytes.sum"}}, 1, sum, &k::dram_bytes},
      use("sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active", &p::alu),
      use("sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", &p::fma),
      use("sm__inst_executed_pipe_fp16.avg.pct_of_peak_sustained_active", &p::fp16,
          "sm__inst_executed_pipe_fma_type_fp16.avg.pct_of_peak_sustained_active"),
      use("sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active", &p::fp64),
      // A tensor instruction keeps its pipe busy for many cycles.
      use("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", &p::tensor,
          "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"),
      use("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", &p::xu),
      use("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active", &p::lsu),
  };
  return all;
}

/// The counters of a kernel that takes `us` alone, from those of its range and of an empty range.
kernel_counters counters_of(const std::vector<double>& range, const std::vector<double>& empty,
                            double us, const std::string& where) {
  kernel_counters made;
  for (std::size_t i = 0; i < range.size(); ++i) {
    const reading& r = readings()[i];
    if (!std::isfinite(range[i]) || range[i] < 0)
      throw error(errc::device_failed, where + ": " + r.counter.names.front() + " is " +
                                           std::to_string(range[i]) + ", expected 0 or more");
    double value = range[i] * r.scale;
    const double beside = std::isfinite(empty[i]) ? empty[i] * r.scale : 0; // of the range itself
    if (r.over == counted_over::sum) value = std::max(0.0, value - beside);
    if (r.over == counted_over::elapsed)
      value = std::max(0.0, (value * range[range_us] - beside * empty[range_us]) * 1e-3 / us);
    if (r.scale == percent) value = std::min(value, 1.0); // passes differ: 100.3% was seen
    if (r.field == &kernel_counters::ipc) value = std::min(value, 4.0);
    (r.field != nullptr ? made.*r.field : made.pipes.*r.pipe) = value;
  }
  if (!(made.ipc > 0))
    throw error(errc::device_failed, where + ": the profiler saw no instruction, expected some; is "
                                             "another profiler at work?");
  made.us = us;
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
  const auto values = count_ranges(wanted, kernels.size() + 1,
                                   {[&](std::size_t r) {
                                      if (r > 0) before(r - 1);
                                    },
                                    [&](std::size_t r) {
                                      if (r > 0) run(kernels[r - 1]); // the first range stays empty
                                    }},
                                   how.cupti_library);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const std::string where = into.full_name() + ": operation " + std::to_string(kernels[k]);
    const double us = std::max(0.001, to_us(into.operations[kernels[k]].work.expected));
    into.operations[kernels[k]].counters = counters_of(values[k + 1], values[0], us, where);
  }
}

} // namespace gsched::cuda
