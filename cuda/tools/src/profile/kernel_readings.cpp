// SPDX-License-Identifier: Apache-2.0
#include "profile/kernel_readings.hpp"

#include "profile/unseen.hpp"

#include <gsched/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gsched::cuda {

namespace {

/// What a counter's value is an average or a sum over. A range begins before its kernel and ends
/// after it.
enum class counted_over : std::uint8_t {
  active,  ///< cycles in which an SM had a warp
  elapsed, ///< the whole range
  sum      ///< not an average
};

/// A counter, and the field that it adds to.
struct reading {
  counter_name counter;
  double scale; ///< to the unit of the field
  counted_over over;
  double kernel_counters::*field = nullptr; ///< null: one of the pipes or of the waits
  double pipe_use::*pipe = nullptr;
  double warp_waits::*wait = nullptr;

  [[nodiscard]] double& of(kernel_counters& c) const noexcept {
    if (field != nullptr) return c.*field;
    return pipe != nullptr ? c.pipes.*pipe : c.waits.*wait;
  }
};

constexpr double percent = 0.01; ///< to a part of peak
constexpr std::size_t range_us = 0;

const std::vector<reading>& readings() {
  using k = kernel_counters;
  using p = pipe_use;
  using w = warp_waits;
  using enum counted_over;
  const auto use = [](const char* name, double p::*pipe, const char* otherwise = nullptr) {
    counter_name c{{name}, true};
    if (otherwise != nullptr) c.names.push_back(otherwise);
    return reading{std::move(c), percent, active, nullptr, pipe};
  };
  const auto wait = [](const char* name, double w::*field, double scale = percent) {
    return reading{{{name}, true}, scale, active, nullptr, nullptr, field};
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
      wait("smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct", &w::memory),
      wait("sm__average_inst_latency_pipe_lsu_mem_lg_cmd_read.ratio", &w::load_cycles, 1),
      wait("smsp__warp_issue_stalled_short_scoreboard_per_warp_active.pct", &w::shared_memory),
      wait("sm__average_inst_latency_pipe_lsu_mem_shared_cmd_read.ratio", &w::shared_cycles, 1),
      wait("smsp__warp_issue_stalled_no_instruction_per_warp_active.pct", &w::instructions),
      wait("smsp__warp_issue_stalled_imc_miss_per_warp_active.pct", &w::instructions),
      wait("smsp__warp_issue_stalled_selected_per_warp_active.pct", &w::executing),
      wait("smsp__warp_issue_stalled_wait_per_warp_active.pct", &w::executing),
      wait("l1tex__m_l1tex2xbar_req_cycles_stalled.avg.pct_of_peak_sustained_active", &w::blocked),
  };
  return all;
}

} // namespace

std::vector<counter_name> counters_of_kernels() {
  std::vector<counter_name> all;
  for (const reading& r : readings()) all.push_back(r.counter);
  return all;
}

kernel_counters counters_of(const std::vector<double>& range, const std::vector<double>& empty,
                            double us, const std::string& where) {
  kernel_counters made;
  for (std::size_t i = 0; i < range.size(); ++i) {
    const reading& r = readings()[i];
    if (r.wait != nullptr && !std::isfinite(range[i])) continue; // a mean over no access
    if (!std::isfinite(range[i]) || range[i] < 0)
      throw error(errc::device_failed, where + ": " + r.counter.names.front() + " is " +
                                           std::to_string(range[i]) + ", expected 0 or more");
    double value = range[i] * r.scale;
    const double beside = std::isfinite(empty[i]) ? empty[i] * r.scale : 0; // of the range itself
    if (r.over == counted_over::sum) value = std::max(0.0, value - beside);
    if (r.over == counted_over::elapsed)
      value = std::max(0.0, (value * range[range_us] - beside * empty[range_us]) * 1e-3 / us);
    double& into = r.of(made);
    into += value;
    if (r.scale == percent) into = std::min(into, 1.0); // passes differ: 100.3% was seen
    if (r.field == &kernel_counters::ipc) into = std::min(into, 4.0);
  }
  if (!(made.ipc > 0)) throw unseen(where, "the profiler saw no instruction, expected some");
  made.us = us;
  return made;
}

counted_rounds over_rounds(std::span<const kernel_counters> rounds) {
  counted_rounds made;
  made.median = rounds.front(); // with its time, which is that of all
  std::vector<double> values(rounds.size());
  for (const reading& r : readings()) {
    if (r.field == &kernel_counters::us) continue;
    std::transform(rounds.begin(), rounds.end(), values.begin(),
                   [&](kernel_counters c) { return r.of(c); });
    std::sort(values.begin(), values.end());
    r.of(made.median) = values[values.size() / 2];
    const double spread = r.of(made.spread) = values.back() - values.front();
    if (r.scale != percent || spread <= made.widest) continue;
    made.widest = spread;
    made.widest_of = r.counter.names.front();
  }
  return made;
}

} // namespace gsched::cuda
