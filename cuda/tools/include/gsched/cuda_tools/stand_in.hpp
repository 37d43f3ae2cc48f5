// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/program.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/job/program.hpp>

#include <cstddef>
#include <optional>

namespace gsched::cuda {

struct stand_in_options {
  /// How the kernels leave; unset: each as its operation says. Kernels in clusters never do.
  std::optional<leaving> leaves{};
};

/// Programs of kernels that stand in for others: of the same grid, block, registers, shared memory,
/// cluster and time, which do nothing else. A profile of a model runs with them on any GPU, without
/// the model. They are instrumented, and hold no memory but one buffer for copies and sets, which
/// all of a GPU share: what one writes there nobody reads; and 8 bytes a block for kernels that
/// leave at checkpoints, where a block keeps how much longer it has to stay. Such a block is gone
/// within operation::checkpoint, or about 1 us if that is not given.
///
/// Units    in a chain a stand-in takes operation::expected and the usual gap to the next one, so
///          that the whole takes the profile's graph_replay. Blocks stay as long as measurements on
///          this GPU say, shape by shape; what is shorter than any kernel can be is made up for by
///          the ones after it. On fewer SMs it takes as many more waves.
/// Differs  it uses time, blocks, registers and shared memory, and neither bandwidth nor caches:
///          two side by side do not slow one another. Copies take what they take.
/// Cost     set-up: some milliseconds for each shape that this process has not made before. The
///          GPU should have nothing else to do meanwhile.
/// Threads  one at a time; a later call waits.
/// Errors   as cuda::program; does_not_fit names a kernel that no SM of this GPU holds.
[[nodiscard]] program make_stand_in(const profile& of, const stand_in_options& how = {});
/// Of operations as a device takes them, such as a program's; kernels, copies and sets.
[[nodiscard]] program make_stand_in(const gsched::program& of, const stand_in_options& how = {});

/// Kernels of which an SM of this GPU holds another number of blocks than the profile says: none
/// where both GPUs are of one architecture.
[[nodiscard]] std::size_t count_mismatches(const profile& of, const program& made) noexcept;

} // namespace gsched::cuda
