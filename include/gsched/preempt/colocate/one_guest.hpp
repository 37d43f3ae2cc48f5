// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/colocate/candidate.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/plan.hpp>
#include <gsched/preempt/colocate/program.hpp>
#include <gsched/preempt/colocate/room.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched {

/// What of one guest's operations, from one on, a whole real-time program can carry: all blocks of
/// each of them, and no blocks of any other, as what has begun would have to go on somewhere.
///
/// level(i, k) is that of the real-time operation i and the guest's k in one kernel, 0 where they
/// fit on no SM together: of parts with block sizes of their own it can be less than each one's.
///
/// Differs  from pad_planner: one guest, with the fastest variant of each kernel, and levels of
///          pairs.
/// Order    by the real-time program's operations.
/// Cost     O(real-time operations); set-up.
template <class Level>
[[nodiscard]] std::vector<pad_part> plan_one_guest(const pad_program& real_time,
                                                   const pad_program& guest, std::uint32_t from,
                                                   const pad_options& how, Level level) {
  how.check();
  std::vector<pad_part> all;
  std::size_t whole = 0; // parts of operations that are complete
  std::uint32_t k = from, block = 0;
  for (std::size_t i = 0; i < real_time.size() && k < guest.size(); ++i) {
    if (real_time.variants(i).empty()) continue;
    if (guest.variants(k).empty()) break; // something else has to run it
    kernel_variant next = guest.variants(k).front();
    next.level = level(i, k);
    if (next.level == 0) continue;
    pad_room room(real_time.variants(i).front(), how);
    const std::uint32_t taken = room.take(next, next.blocks - block);
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
