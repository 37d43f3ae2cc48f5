// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/job/program.hpp>
#include <gsched/sim/detail/scaling.hpp>
#include <gsched/sim/detail/work_cost.hpp>
#include <gsched/sim/preset.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gsched::sim {

/// The costs of all loaded programs on partitions of all sizes that lanes have, and what is left of
/// their operations that have left the GPU unfinished.
///
/// Errors   does_not_fit for a program with a kernel that no SM holds.
/// Cost     a table an operation when a program is loaded, or when a lane brings a new size.
class program_costs {
public:
  explicit program_costs(const preset& p) : preset_(p), rooms_(p.sm) { width(p.sms); }

  /// The number by which costs for partitions of this size are asked.
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
    e.tables.reserve(p.size());
    for (std::size_t i = 0; i < e.operations.size(); ++i) {
      const operation& op = e.operations[i];
      const std::uint32_t known = op.max_blocks_per_sm;
      const std::uint32_t per_sm =
          op.kind == operation_kind::kernel ? rooms_.need_of(op.launch, known).per_sm : 0;
      if (op.kind == operation_kind::kernel && per_sm == 0)
        throw error(errc::does_not_fit, p.name() + ": operation " + std::to_string(i) + ": " +
                                            why_not_fit(preset_.sm, op.launch));
      e.tables.emplace_back(op, preset_.sms, per_sm, preset_.laws.scaling);
      const bool leaves = op.kind == operation_kind::kernel && op.leaves != leaving::never;
      e.leaving.push_back(e.leaving.back() + (leaves ? 1 : 0));
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
  /// Whether all of these operations can leave.
  [[nodiscard]] bool leave(program_id id, std::size_t first, std::size_t n) const noexcept {
    const std::vector<std::uint32_t>& until = programs_[index(id)].leaving;
    return until[first + n] - until[first] == n;
  }

  /// The first so many blocks of an operation have ended and the rest have left. Two runs of one
  /// program are not to leave at once; if they do, what either has left is run.
  void keep(program_id id, std::size_t operation, std::uint64_t ended) noexcept {
    std::uint64_t& known = programs_[index(id)].ended[operation];
    if (known != 0) rerun_ += std::max(known, ended) - std::min(known, ended);
    known = known != 0 ? std::min(known, ended) : ended;
  }
  /// How many blocks of an operation that begins a segment have ended: it runs the others. One that
  /// stands elsewhere runs all of them.
  [[nodiscard]] std::uint64_t resume(program_id id, std::size_t operation, bool begins) noexcept {
    const std::uint64_t ended = std::exchange(programs_[index(id)].ended[operation], 0);
    if (begins) return ended;
    rerun_ += ended;
    return 0;
  }
  /// Blocks run again that had ended.
  [[nodiscard]] std::uint64_t rerun_blocks() const noexcept { return rerun_; }

  /// Of an operation that belongs to no program.
  [[nodiscard]] work_cost brief(const operation& op, std::uint32_t width) const noexcept {
    const std::uint32_t per_sm = op.kind == operation_kind::kernel
                                     ? rooms_.need_of(op.launch, op.max_blocks_per_sm).per_sm
                                     : 0;
    const brief_scaling scaling(op, preset_.sms, per_sm, preset_.laws.scaling);
    return cost_of(op, scaling, widths_[width], rooms_, preset_);
  }

private:
  struct entry {
    std::vector<operation> operations;
    std::vector<scaling_table> tables;
    std::vector<std::vector<work_cost>> by_width;
    std::vector<std::uint32_t> leaving{0}; ///< [i]: operations before i that can leave
    std::vector<std::uint64_t> ended;      ///< blocks of operation i, if others have left
  };

  [[nodiscard]] std::vector<work_cost> costs(const entry& e, sm_count sms) const {
    std::vector<work_cost> all;
    all.reserve(e.operations.size());
    for (std::size_t i = 0; i < e.operations.size(); ++i)
      all.push_back(cost_of(e.operations[i], e.tables[i], sms, rooms_, preset_));
    return all;
  }

  preset preset_;
  room_model rooms_;
  std::vector<sm_count> widths_;
  std::vector<entry> programs_;
  std::uint64_t rerun_ = 0;
};

} // namespace gsched::sim
