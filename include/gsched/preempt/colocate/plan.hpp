// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/colocate/capacity.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/pad_limits.hpp>
#include <gsched/preempt/colocate/program.hpp>
#include <gsched/preempt/colocate/selection.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// Blocks of a best-effort kernel that are launched with a real-time kernel, in one grid and after
/// its blocks.
struct pad_part {
  std::uint32_t host_operation = 0; ///< index in the real-time program
  std::uint32_t corunner = 0;
  std::uint32_t corunner_operation = 0;
  /// variant of the co-runner's operation, in the order of its pad_program
  std::uint32_t variant = 0;
  std::uint32_t first_block = 0;
  std::uint32_t blocks = 0;
  std::uint32_t level = 0; ///< level of the whole padded kernel, equal for all of its parts
  bool operator==(const pad_part&) const noexcept = default;
};

/// A best-effort program and its progress.
struct pad_corunner {
  const pad_program* program = nullptr;
  std::uint32_t operation = 0; ///< the next operation
  std::uint32_t block = 0;     ///< its next block: the blocks before it have run
  std::uint32_t variant = 0;   ///< if block > 0: the variant of the blocks that have run
  bool operator==(const pad_corunner&) const noexcept = default;
};

/// Pads real-time programs with kernels of best-effort programs.
///
/// Source   REEF, ACM TOCS 44(1), 2025, doi:10.1145/3768622, sections 5.2 and 5.3: for each
///          real-time kernel in order, of the co-runners' next kernels that meet both rules, the
///          one with the shortest kernel time takes as much capacity as it can use, until no
///          capacity or no candidate is left.
/// Differs  a kernel may be spread over several real-time kernels by ranges of its blocks, all of
///          one variant. Kernel j + 1 of a co-runner starts in a later real-time kernel than the
///          one in which kernel j ends, because only then all results of j exist. The planner is
///          greedy, like the paper. With one co-runner of one variant a kernel, no plan gets
///          further: a plan that is behind stays behind. With several it may not be optimal: the
///          shortest kernel can take the capacity, or use up the parts, where a longer one has more
///          blocks, and no constant bounds the loss. No capacity is wasted: unless all parts are
///          used, every remaining slot is too short for each co-runner that may use it.
///          With pad_limits, a part of n of at most m blocks uses n / m of what a real-time kernel
///          may be slowed, and its parts together use at most 1. The law itself, for all parts at
///          once, may exceed the allowance a little: of random sets for 1.05, 2% exceed 1.065.
/// Order    deterministic: parts by host operation, then as they were chosen; ties as pad_selector.
/// Errors   the constructor: bad_option.
/// Cost     O(host kernels x parts x (co-runners x variants)); no allocation after construction.
/// Threads  one owner; no locking.
class pad_planner {
public:
  pad_planner(const pad_options& o, std::size_t max_corunners, std::size_t max_variants)
      : options_((o.check(), o)), candidates_(max_corunners, max_variants),
        most_(max_corunners, pad_limits::no_limit), withheld_(max_corunners, 0) {}

  /// Pads operations [first, last) of a real-time program and advances the co-runners. Returns the
  /// number of parts written; ends early if `out` is full, and the written parts are then valid. At
  /// most max_corunners co-runners, with at most max_variants variants a kernel. `limits`, one for
  /// each co-runner or none at all, are those of the real-time program and the co-runner's; null:
  /// the rules alone.
  std::size_t plan(const pad_program& real_time, std::size_t first, std::size_t last,
                   std::span<pad_corunner> corunners, std::span<pad_part> out,
                   std::span<const pad_limits* const> limits = {}) noexcept {
    assert(first <= last && last <= real_time.size());
    assert(limits.empty() || limits.size() == corunners.size());
    std::size_t n = 0;
    for (std::uint32_t g = 0; g < corunners.size(); ++g) offer(g, corunners[g]);
    for (std::size_t i = first; i < last && n < out.size(); ++i) {
      if (real_time.variants(i).empty()) continue;
      for (std::uint32_t g = 0; g < limits.size(); ++g) limit(g, i, corunners[g], limits[g]);
      n += pad(real_time.variants(i).front(), static_cast<std::uint32_t>(i), corunners,
               out.subspan(n));
    }
    for (std::uint32_t g = 0; g < corunners.size(); ++g) {
      candidates_.erase(g);
      most_[g] = pad_limits::no_limit;
      withheld_[g] = 0;
    }
    return n;
  }

  [[nodiscard]] const pad_options& options() const noexcept { return options_; }

private:
  void offer(std::uint32_t g, const pad_corunner& corunner) noexcept {
    if (corunner.operation >= corunner.program->size()) {
      candidates_.erase(g);
      return;
    }
    std::span<const kernel_variant> variants = corunner.program->variants(corunner.operation);
    if (corunner.block > 0) // another program may lack this variant: the co-runner waits
      variants = variants.subspan(std::min<std::size_t>(corunner.variant, variants.size()));
    if (corunner.block > 0 && !variants.empty()) variants = variants.first(1);
    candidates_.set(g, variants);
  }

  /// Sets the limit of a co-runner's next operation beside a real-time operation.
  void limit(std::uint32_t g, std::size_t at, const pad_corunner& corunner,
             const pad_limits* by) noexcept {
    if (by == nullptr || corunner.operation >= corunner.program->size()) return;
    most_[g] = by->most(at, corunner.operation);
    if (most_[g] == 0)
      withhold(g);
    else if (std::exchange(withheld_[g], 0) != 0)
      offer(g, corunner);
  }
  void withhold(std::uint32_t g) noexcept {
    if (std::exchange(withheld_[g], 1) == 0) candidates_.erase(g);
  }
  /// The blocks of a co-runner that the rest of the allowance admits.
  [[nodiscard]] std::uint32_t within(std::uint32_t g, double rest) const noexcept {
    if (most_[g] == pad_limits::no_limit) return most_[g];
    constexpr double rounding = 1e-9;
    return static_cast<std::uint32_t>(most_[g] * rest + rounding);
  }

  /// Pads one real-time kernel.
  std::size_t pad(const kernel_variant& host, std::uint32_t at, std::span<pad_corunner> corunners,
                  std::span<pad_part> out) noexcept {
    pad_capacity room(host, options_);
    std::size_t n = 0;
    double rest = 1; // of what the real-time kernel may be slowed
    while (n < out.size()) {
      const std::optional<pad_pick> c = candidates_.select(room.terms());
      if (!c) break;
      pad_corunner& corunner = corunners[c->task];
      if (corunner.block == 0) corunner.variant = c->variant;
      const kernel_variant& k = corunner.program->variants(corunner.operation)[corunner.variant];
      const std::uint32_t taken =
          room.take(k, std::min(k.blocks - corunner.block, within(c->task, rest)));
      out[n++] = {at, c->task, corunner.operation, corunner.variant, corunner.block, taken, 0};
      corunner.block += taken;
      candidates_.erase(c->task); // at most one part for each co-runner
      if (most_[c->task] == pad_limits::no_limit) continue;
      rest -= static_cast<double>(taken) / most_[c->task];
      for (std::uint32_t g = 0; g < corunners.size(); ++g)
        if (within(g, rest) == 0) withhold(g);
    }
    for (pad_part& p : out.first(n)) {
      p.level = room.level();
      pad_corunner& corunner = corunners[p.corunner];
      if (corunner.block == corunner.program->variants(corunner.operation)[corunner.variant].blocks)
        corunner = {corunner.program, corunner.operation + 1, 0, 0};
      withheld_[p.corunner] = 0;
      offer(p.corunner, corunner);
    }
    return n;
  }

  pad_options options_;
  pad_selector candidates_;
  std::vector<std::uint32_t> most_;    ///< by co-runner: blocks beside the current real-time kernel
  std::vector<std::uint8_t> withheld_; ///< by co-runner: not a candidate, because of its limit
};

} // namespace gsched
