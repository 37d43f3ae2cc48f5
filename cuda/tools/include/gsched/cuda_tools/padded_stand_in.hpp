// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gsched::cuda {

/// Stand-ins of real-time programs, padded with those of best-effort ones: as make_stand_in has
/// them where nothing is carried, and proxy kernels where something is.
///
/// Source   Han et al., ACM TOCS 44(1), 2025, section 5, doi:10.1145/3768622.
/// Cost     set-up: some milliseconds for each shape of a kernel that was not measured before, and
///          what a program costs. The GPU should have nothing else to do meanwhile.
/// Errors   those of make_stand_in and of padder.
/// Threads  one owner.
class padded_stand_ins {
public:
  /// On the current GPU. A guest at a time is carried: `how.parts` does not count.
  explicit padded_stand_ins(level_rule rule = level_rule::own);
  ~padded_stand_ins();
  padded_stand_ins(padded_stand_ins&&) noexcept;
  padded_stand_ins& operator=(padded_stand_ins&&) noexcept;

  /// A profile, by the number that is returned from then on. It outlives this.
  [[nodiscard]] std::size_t add(const profile& p);

  /// What of the guest's operations, from one on, the whole real-time program can carry: in its
  /// order. None where a profile is no chain.
  [[nodiscard]] std::vector<pad_part> plan(std::size_t real_time, std::size_t guest,
                                           std::uint32_t from);
  /// The real-time program with some of a plan's parts, from its first on: all of the blocks of
  /// each of the guest's operations among them.
  [[nodiscard]] program make(std::size_t real_time, std::size_t guest,
                             std::span<const pad_part> parts);
  /// How much longer than alone the real-time program takes so: measured, some times between runs
  /// of it alone.
  [[nodiscard]] duration longer(std::size_t real_time, const program& padded);

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched::cuda
