// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/preempt/colocate/candidate.hpp>
#include <gsched/preempt/colocate/rules.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gsched {

/// The result of a selection: a task and one of its variants.
struct pad_pick {
  std::uint32_t task = 0;
  std::uint32_t variant = 0;
  bool operator==(const pad_pick&) const noexcept = default;
};

/// Selects, among the next kernels of best-effort tasks, the one that pads a real-time kernel.
/// Tasks are numbers below max_tasks that the caller assigns.
///
/// Source   REEF, ACM TOCS 44(1), 2025, doi:10.1145/3768622, section 5.3: of all variants of all
///          tasks' kernels that meet both rules, the one with the shortest kernel time.
/// Differs  scans columns of numbers, which compilers vectorise; every task has a fixed range of
///          rows. An ordered list for each level, also measured in bench/pad_selection.cpp, is
///          faster if many variants are admitted and slower if none is, and pays for each kernel
///          that a co-runner advances to: with ten variants a kernel, three times the cost of the
///          scan of 1000.
/// Order    (kernel time, task, variant) rising.
/// Units    times in ns up to 2.147 s; longer times count as that, and such a block is never
///          chosen.
/// Errors   the constructor: bad_option.
/// Cost     select O(tasks x max_variants), from the first task up to the last one in use; set and
///          erase O(max_variants). No allocation after construction.
/// Threads  one owner; no locking.
class pad_selector {
public:
  pad_selector(std::size_t max_tasks, std::size_t max_variants)
      : stride_(max_variants), tasks_(max_tasks) {
    if (max_tasks == 0 || max_variants == 0 || max_tasks > most_rows / max_variants)
      throw error(errc::bad_option, "pad_selector: " + std::to_string(max_tasks) + " tasks of " +
                                        std::to_string(max_variants) +
                                        " variants, expected at least one of each and 2^24 in all");
    const std::size_t rows = (max_tasks * max_variants + lanes - 1) / lanes * lanes;
    block_time_.assign(rows, never);
    haste_.assign(rows, 0);
    level_.assign(rows, 0);
    counts_.assign(max_tasks, 0);
  }

  /// Sets the next kernel of a task, which is new or advances. At most max_variants variants; with
  /// none, as erase().
  void set(std::uint32_t task, std::span<const kernel_variant> variants) noexcept {
    assert(task < tasks_ && variants.size() <= stride_);
    const std::size_t first = task * stride_;
    for (std::size_t i = 0; i < variants.size(); ++i) {
      block_time_[first + i] = column(variants[i].block_time);
      haste_[first + i] = none - column(variants[i].kernel_time);
      level_[first + i] = static_cast<std::int32_t>(variants[i].level);
    }
    for (std::size_t i = variants.size(); i < counts_[task]; ++i) block_time_[first + i] = never;
    counts_[task] = static_cast<std::uint32_t>(variants.size());
    if (!variants.empty()) used_ = std::max(used_, std::size_t{task} + 1);
    while (used_ > 0 && counts_[used_ - 1] == 0) --used_;
  }

  /// The task has no kernel that could pad another one.
  void erase(std::uint32_t task) noexcept { set(task, {}); }

  /// Of the variants that the terms admit, the one with the shortest kernel time.
  [[nodiscard]] std::optional<pad_pick> select(const pad_terms& terms) const noexcept {
    const std::size_t end = (used_ * stride_ + lanes - 1) / lanes * lanes;
    const std::int32_t last = column(terms.time) - 1;
    const auto level = static_cast<std::int32_t>(std::min<std::uint32_t>(terms.level, never));
    std::array<std::int32_t, lanes> most{};
    // Sums and masks, because the oldest vector instruction sets have no minimum.
    for (std::size_t row = 0; row < end; row += lanes)
      for (std::size_t i = 0; i < lanes; ++i) {
        const std::int32_t refused =
            -std::int32_t{block_time_[row + i] > last} | -std::int32_t{level > level_[row + i]};
        const std::int32_t more = (haste_[row + i] & ~refused) - most[i];
        most[i] += more & ~(more >> 31);
      }
    std::int32_t best = 0;
    for (const std::int32_t m : most) best = m > best ? m : best;
    if (best == 0) return std::nullopt;
    std::size_t first = end;
    for (std::size_t i = 0; i < lanes; ++i)
      if (most[i] == best) first = std::min(first, first_of(i, best, last, level));
    return pad_pick{static_cast<std::uint32_t>(first / stride_),
                    static_cast<std::uint32_t>(first % stride_)};
  }

  /// By rules 1 and 2, for a kernel without co-runners.
  [[nodiscard]] std::optional<pad_pick> select(const kernel_variant& real_time, level_rule rule,
                                               sm_count sms) const noexcept {
    return select(terms_of(real_time, rule, sms));
  }

private:
  static constexpr std::size_t lanes = 16;
  static constexpr std::size_t most_rows = std::size_t{1} << 24;
  static constexpr std::int32_t none = std::numeric_limits<std::int32_t>::max();
  static constexpr std::int32_t never = none - 1; ///< a block time that no terms admit

  [[nodiscard]] static std::int32_t column(duration d) noexcept {
    return static_cast<std::int32_t>(std::clamp<duration::rep>(d.count(), 0, never));
  }

  /// The first row of a lane that is admitted and has this haste; it exists.
  [[nodiscard]] std::size_t first_of(std::size_t lane, std::int32_t best, std::int32_t last,
                                     std::int32_t level) const noexcept {
    std::size_t row = lane;
    while (haste_[row] != best || block_time_[row] > last || level_[row] < level) row += lanes;
    return row;
  }

  std::size_t stride_;                   ///< rows of a task
  [[maybe_unused]] std::size_t tasks_;   ///< for assertions only
  std::size_t used_ = 0;                 ///< one more than the last task with variants
  std::vector<std::int32_t> block_time_; ///< never: no candidate
  std::vector<std::int32_t> haste_;      ///< the largest number less the kernel time
  std::vector<std::int32_t> level_;
  std::vector<std::uint32_t> counts_; ///< number of variants of each task
};

} // namespace gsched
