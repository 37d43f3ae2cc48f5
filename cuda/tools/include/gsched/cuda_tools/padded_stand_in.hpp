// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/pad_limits.hpp>
#include <gsched/preempt/colocate/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gsched::cuda {

/// Stand-ins of real-time programs, padded with those of best-effort programs. An operation without
/// a co-runner is as make_stand_in makes it; one with a co-runner is a proxy kernel.
///
/// Source   Han et al., ACM TOCS 44(1), 2025, section 5, doi:10.1145/3768622.
/// Cost     set-up: some milliseconds for each new shape of a kernel, plus the cost of a program.
///          The GPU should be idle meanwhile.
/// Errors   as make_stand_in and padder.
/// Threads  one owner.
class padded_stand_ins {
public:
  /// On the current GPU, with one co-runner at a time; `how.parts` has no effect.
  explicit padded_stand_ins(level_rule rule = level_rule::own);
  ~padded_stand_ins();
  padded_stand_ins(padded_stand_ins&&) noexcept;
  padded_stand_ins& operator=(padded_stand_ins&&) noexcept;

  /// Registers a profile, which must outlive this object, and returns its number.
  [[nodiscard]] std::size_t add(const profile& p);

  /// The operations of the co-runner, beginning with `from`, that fit into the whole real-time
  /// program, in program order, within the limits of the two programs if there are any. Empty if a
  /// profile is not a chain.
  [[nodiscard]] std::vector<pad_part> plan(std::size_t real_time, std::size_t corunner,
                                           std::uint32_t from, const pad_limits* limits = nullptr);
  /// Makes the real-time program with a prefix of a plan. The prefix must contain all blocks of
  /// each of its co-runner operations.
  [[nodiscard]] program make(std::size_t real_time, std::size_t corunner,
                             std::span<const pad_part> parts);
  /// The additional time of the padded program, measured some times between runs of the real-time
  /// program alone.
  [[nodiscard]] duration longer(std::size_t real_time, const program& padded);

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched::cuda
