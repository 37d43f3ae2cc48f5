// SPDX-License-Identifier: Apache-2.0
#include "common/run/preemptible_profile.hpp"

#include <gsched/core/launch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace common {

using namespace gsched;

namespace {

/// How long a block runs between two looks at the flag: what stand-ins on a GPU do.
constexpr duration between_checkpoints = std::chrono::microseconds{1};

/// A kernel of plain stores for what was a copy or a set.
operation as_kernel(const operation& o) {
  constexpr std::uint64_t bytes_a_block = 16384, most_blocks = 528;
  operation k;
  k.expected = o.expected;
  k.launch.grid = {static_cast<std::uint32_t>(
                       std::clamp<std::uint64_t>(o.bytes.count() / bytes_a_block, 1, most_blocks)),
                   1, 1};
  k.launch.block = {256, 1, 1};
  k.launch.registers_per_thread = 16;
  return k;
}

} // namespace

profile preemptible_profile(profile p, preemptibility leaves) {
  if (leaves == preemptibility::never) return p;
  for (profile_operation& op : p.operations) {
    if (op.work.kind != operation_kind::kernel) {
      op.symbol = op.name = "plain stores";
      op.work = as_kernel(op.work);
    }
    op.work.launch.cluster_blocks = 1;
    op.work.preemptible = leaves;
    if (leaves == preemptibility::at_checkpoints) op.work.checkpoint = between_checkpoints;
  }
  return p;
}

} // namespace common
