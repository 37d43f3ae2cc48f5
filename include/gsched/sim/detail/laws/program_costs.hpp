// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/kernel_counters.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>
#include <gsched/sim/detail/laws/graph_law.hpp>
#include <gsched/sim/detail/laws/scaling.hpp>
#include <gsched/sim/detail/laws/work_cost.hpp>
#include <gsched/sim/preset.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gsched::sim {

/// The costs of all loaded programs for all partition sizes of the lanes, and the unfinished blocks
/// of their preempted operations.
///
/// Errors   does_not_fit: a program with a kernel that fits on no SM.
/// Cost     a table an operation when a program is loaded, or when a lane has a new size.
class program_costs {
public:
  explicit program_costs(const preset& p) : preset_(p), packer_(p.sm) { width(p.sms); }

  /// The index of the costs for partitions of this size.
  std::uint32_t width(sm_count sms) {
    for (std::uint32_t i = 0; i < widths_.size(); ++i)
      if (widths_[i] == sms) return i;
    widths_.push_back(sms);
    for (entry& e : programs_) e.by_width.push_back(costs(e, sms));
    return static_cast<std::uint32_t>(widths_.size() - 1);
  }

  program_id load(const program& p) {
    entry e;
    e.operations.assign(p.operations().begin(), p.operations().end());
    for (std::size_t i = 0; i < p.size(); ++i)
      e.counters.push_back(p.counters(i) != nullptr ? std::optional(*p.counters(i)) : std::nullopt);
    e.tables.reserve(p.size());
    for (std::size_t i = 0; i < e.operations.size(); ++i) {
      const operation& op = e.operations[i];
      const std::uint32_t known = op.max_blocks_per_sm;
      const std::uint32_t per_sm =
          op.kind == operation_kind::kernel ? packer_.need_of(op.launch, known).per_sm : 0;
      if (op.kind == operation_kind::kernel && per_sm == 0)
        throw error(errc::does_not_fit, p.name() + ": operation " + std::to_string(i) + ": " +
                                            why_not_fit(preset_.sm, op.launch));
      e.tables.emplace_back(op, preset_.sms, per_sm, preset_.laws.scaling);
      const bool preemptible =
          op.kind == operation_kind::kernel && op.preemptible != preemptibility::never;
      e.preemptible_before.push_back(e.preemptible_before.back() + (preemptible ? 1 : 0));
    }
    e.ended.resize(p.size());
    e.replays.assign(p.replays().begin(), p.replays().end());
    e.law = law_on(e, preset_.sms);
    for (const sm_count sms : widths_) e.by_width.push_back(costs(e, sms));
    programs_.push_back(std::move(e));
    return program_id{static_cast<std::uint32_t>(programs_.size() - 1)};
  }

  [[nodiscard]] bool has(program_id id, std::size_t first, std::size_t n) const noexcept {
    return index(id) < programs_.size() && first + n <= programs_[index(id)].operations.size();
  }
  [[nodiscard]] const work_cost* at(program_id id, std::uint32_t width) const noexcept {
    return programs_[index(id)].by_width[width].data();
  }
  /// Between dependent operations of a program.
  [[nodiscard]] duration gap(program_id id) const noexcept { return programs_[index(id)].law.gap; }
  /// Whether all of these operations are preemptible.
  [[nodiscard]] bool preemptible(program_id id, std::size_t first, std::size_t n) const noexcept {
    const std::vector<std::uint32_t>& until = programs_[index(id)].preemptible_before;
    return until[first + n] - until[first] == n;
  }

  /// The first `ended` blocks of a preempted operation have ended. Two runs of one program must not
  /// be preempted at once; if they are, the unfinished blocks of either are run.
  void keep(program_id id, std::size_t operation, std::uint64_t ended) noexcept {
    std::uint64_t& known = programs_[index(id)].ended[operation];
    if (known != 0) rerun_ += std::max(known, ended) - std::min(known, ended);
    known = known != 0 ? std::min(known, ended) : ended;
  }
  /// The number of blocks of an operation that have ended: a segment that begins with it runs the
  /// others. A segment that does not start at the saved operation runs all of its blocks.
  [[nodiscard]] std::uint64_t resume(program_id id, std::size_t operation, bool begins) noexcept {
    const std::uint64_t ended = std::exchange(programs_[index(id)].ended[operation], 0);
    if (begins) return ended;
    rerun_ += ended;
    return 0;
  }
  /// The number of blocks run again although they had ended.
  [[nodiscard]] std::uint64_t rerun_blocks() const noexcept { return rerun_; }

  /// The cost of an operation outside programs.
  [[nodiscard]] work_cost brief(const operation& op, std::uint32_t width) const noexcept {
    const std::uint32_t per_sm = op.kind == operation_kind::kernel
                                     ? packer_.need_of(op.launch, op.max_blocks_per_sm).per_sm
                                     : 0;
    const brief_scaling scaling(op, preset_.sms, per_sm, preset_.laws.scaling);
    return cost_of(op, nullptr, scaling, widths_[width], packer_, preset_, preset_.laws.graph);
  }

private:
  struct entry {
    std::vector<operation> operations;
    std::vector<std::optional<kernel_counters>> counters;
    std::vector<scaling_table> tables;
    std::vector<std::vector<work_cost>> by_width;
    std::vector<std::uint32_t> preemptible_before{0}; ///< [i]: preemptible operations before i
    std::vector<scaling_point> replays;               ///< of the whole program alone: see program
    graph_law law{};                                  ///< on all SMs
    std::vector<std::uint64_t> ended; ///< ended blocks of operation i, if others were preempted
  };

  [[nodiscard]] std::vector<work_cost> costs(const entry& e, sm_count sms) const {
    const graph_law law = law_on(e, sms);
    std::vector<work_cost> all;
    all.reserve(e.operations.size());
    for (std::size_t i = 0; i < e.operations.size(); ++i)
      all.push_back(cost_of(e.operations[i], e.counters[i] ? &*e.counters[i] : nullptr, e.tables[i],
                            sms, packer_, preset_,
                            e.tables[i].by_dispatcher() ? preset_.laws.graph : law));
    double us = to_us(law.gap) * static_cast<double>(all.size()), dram = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double alone = e.operations[i].kind == operation_kind::kernel
                               ? to_us(law.operation(e.tables[i].at(sms)))
                               : all[i].wave_ns / 1e3;
      us += alone;
      dram += alone * all[i].load.use[index(resource::dram)];
    }
    for (work_cost& c : all) c.load.dram_of_graph = us > 0 ? static_cast<float>(dram / us) : 0;
    return all;
  }

  /// The law of a program on a partition: such that it takes the measured time there alone. What it
  /// takes on all SMs beyond its operations are gaps; if it takes less, branches of the graph run
  /// at once, and each operation is as much faster. Between measured points the scale is on a line.
  [[nodiscard]] graph_law law_on(const entry& e, sm_count sms) const {
    graph_law law = preset_.laws.graph;
    if (e.replays.empty()) return law;
    const auto gaps = static_cast<double>(e.operations.size() - 1);
    const scaling_point& whole = e.replays.back();
    if (gaps > 0) {
      const times all = alone(e, whole.sms);
      const double us = to_us(whole.time) - all.kernels_us - all.others_us;
      law.gap = from_us(std::max(0.0, us / gaps));
    }
    const auto scale = [&](const scaling_point& p) {
      constexpr double least = 0.05;
      const times t = alone(e, p.sms);
      const double us = to_us(p.time) - to_us(law.gap) * gaps - t.others_us;
      return t.kernels_us > 0 ? std::max(least, us / t.kernels_us) : 1;
    };
    auto after = e.replays.begin();
    while (after + 1 != e.replays.end() && after->sms < sms) ++after;
    double there = scale(*after);
    if (after != e.replays.begin() && sms < after->sms) {
      const scaling_point& before = *(after - 1);
      const double way = (sms.count() - before.sms.count()) /
                         static_cast<double>(after->sms.count() - before.sms.count());
      there = std::lerp(scale(before), there, way);
    }
    law.scale *= there;
    return law;
  }

  /// The operations of a program one by one, alone, as the preset says.
  struct times {
    double kernels_us = 0;
    double others_us = 0;
  };
  [[nodiscard]] times alone(const entry& e, sm_count sms) const {
    times t;
    for (std::size_t i = 0; i < e.operations.size(); ++i)
      if (e.operations[i].kind != operation_kind::kernel)
        t.others_us += to_us(transfer_time(e.operations[i], preset_));
      else if (const duration at = preset_.laws.graph.operation(e.tables[i].at(sms));
               e.tables[i].by_dispatcher())
        t.others_us += to_us(at);
      else
        t.kernels_us += to_us(at);
    return t;
  }

  preset preset_;
  resource_packer packer_;
  std::vector<sm_count> widths_;
  std::vector<entry> programs_;
  std::uint64_t rerun_ = 0;
};

} // namespace gsched::sim
