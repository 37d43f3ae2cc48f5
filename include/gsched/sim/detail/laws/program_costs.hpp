// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/job/kernel_counters.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>
#include <gsched/sim/detail/laws/scaling.hpp>
#include <gsched/sim/detail/laws/work_cost.hpp>
#include <gsched/sim/preset.hpp>

#include <algorithm>
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
    return cost_of(op, nullptr, scaling, widths_[width], packer_, preset_);
  }

private:
  struct entry {
    std::vector<operation> operations;
    std::vector<std::optional<kernel_counters>> counters;
    std::vector<scaling_table> tables;
    std::vector<std::vector<work_cost>> by_width;
    std::vector<std::uint32_t> preemptible_before{0}; ///< [i]: preemptible operations before i
    std::vector<std::uint64_t> ended; ///< ended blocks of operation i, if others were preempted
  };

  [[nodiscard]] std::vector<work_cost> costs(const entry& e, sm_count sms) const {
    std::vector<work_cost> all;
    all.reserve(e.operations.size());
    for (std::size_t i = 0; i < e.operations.size(); ++i)
      all.push_back(cost_of(e.operations[i], e.counters[i] ? &*e.counters[i] : nullptr, e.tables[i],
                            sms, packer_, preset_));
    return all;
  }

  preset preset_;
  resource_packer packer_;
  std::vector<sm_count> widths_;
  std::vector<entry> programs_;
  std::uint64_t rerun_ = 0;
};

} // namespace gsched::sim
