// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/program.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/job/program.hpp>

#include <cstddef>
#include <optional>

namespace gsched::cuda {

/// Options of stand-ins.
struct stand_in_options {
  /// How the kernels can be preempted; unset: as each operation says. Kernels in clusters never
  /// are.
  std::optional<preemptibility> preemptible{};
};

/// Makes a program of stand-in kernels, with the same grid, block, registers, shared memory,
/// cluster and time as the original ones, which do nothing else. They replay the profile of a model
/// on any GPU, without the model.
///
/// The stand-ins are instrumented. All stand-ins of a GPU share one buffer for copies and sets,
/// which nothing reads. Kernels that can be preempted at checkpoints also have 8 bytes for each
/// block, where the block saves its remaining time; such a block exits within
/// operation::checkpoint, or within about 1 us if that is not set.
///
/// Units    in a chain, a stand-in takes operation::expected plus the usual gap to the next one, so
///          that the whole program takes the profile's graph_replay. The time of a block is
///          calibrated on this GPU for each shape. If an operation is shorter than any kernel can
///          be, the following ones are shortened instead. On fewer SMs a stand-in takes
///          correspondingly more waves.
/// Differs  a stand-in uses time, blocks, registers and shared memory, but no bandwidth and no
///          caches: two of them do not slow each other. Copies take their real time.
/// Cost     set-up: some milliseconds for each new shape in this process. The GPU should be idle
///          meanwhile.
/// Threads  one at a time; concurrent calls wait.
/// Errors   as cuda::program; does_not_fit, naming a kernel that no SM of this GPU can hold.
[[nodiscard]] program make_stand_in(const profile& of, const stand_in_options& how = {});
/// Stand-ins of a program's kernels, copies and sets.
[[nodiscard]] program make_stand_in(const gsched::program& of, const stand_in_options& how = {});

/// The number of kernels for which an SM of this GPU holds another number of blocks than the
/// profile says; 0 if both GPUs have the same architecture.
[[nodiscard]] std::size_t count_mismatches(const profile& of, const program& made) noexcept;

} // namespace gsched::cuda
