// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/colocate/candidate.hpp>
#include <gsched/preempt/colocate/capacity.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/pad_limits.hpp>
#include <gsched/preempt/colocate/plan.hpp>
#include <gsched/preempt/colocate/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched {

/// The operations of one co-runner, from one on, that a whole real-time program can carry: all
/// blocks of each of them. Partial operations are not carried, because they would have to continue
/// elsewhere.
///
/// level(i, k) is the level of the real-time operation i and the co-runner's operation k in one
/// kernel, 0 if they do not fit on an SM together; with different block sizes it can be less than
/// either's own level. With limits, no real-time operation carries more blocks than they allow.
///
/// Differs  from pad_planner: one co-runner, with the fastest variant of each kernel, and levels of
///          pairs.
/// Order    by the operations of the real-time program.
/// Cost     O(real-time operations); set-up.
template <class Level>
[[nodiscard]] std::vector<pad_part>
plan_one_corunner(const pad_program& real_time, const pad_program& corunner, std::uint32_t from,
                  const pad_options& how, Level level, const pad_limits* limits = nullptr) {
  how.check();
  std::vector<pad_part> all;
  std::size_t whole = 0; // parts of complete operations
  std::uint32_t k = from, block = 0;
  for (std::size_t i = 0; i < real_time.size() && k < corunner.size(); ++i) {
    if (real_time.variants(i).empty()) continue;
    if (corunner.variants(k).empty()) break; // it has to run in another way
    kernel_variant next = corunner.variants(k).front();
    next.level = level(i, k);
    if (next.level == 0) continue;
    pad_capacity room(real_time.variants(i).front(), how);
    const std::uint32_t most = limits == nullptr ? pad_limits::no_limit : limits->most(i, k);
    const std::uint32_t taken = room.take(next, std::min(next.blocks - block, most));
    if (taken == 0) continue;
    all.push_back({static_cast<std::uint32_t>(i), 0, k, 0, block, taken, room.level()});
    block += taken;
    if (block < next.blocks) continue;
    ++k;
    block = 0;
    whole = all.size();
  }
  all.resize(whole);
  return all;
}

} // namespace gsched
