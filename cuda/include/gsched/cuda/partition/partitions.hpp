// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>

#include <cuda.h>

#include <cstdint>
#include <span>
#include <vector>

namespace gsched::cuda {

/// The sizes of the groups into which the SMs of a GPU are split, in order. A process makes one
/// split, since two splits would overlap. The groups are as small as the driver allows; the last
/// one holds the remaining SMs, if any.
/// Errors   device_failed with CUDA's message.
[[nodiscard]] std::vector<std::uint32_t> group_sizes(int gpu);

/// Owns a green context on some groups of the GPU's split.
///
/// Errors   device_failed with CUDA's message, and as below.
/// Cost     construction takes about a millisecond.
/// Threads  any: the split is guarded by a mutex.
class partition {
public:
  /// At least `wanted` SMs, rounded up to whole groups, exclusive among the partitions of this
  /// process that were made by this constructor.
  /// Errors   too_small if too few SMs are free.
  partition(int gpu, sm_count wanted);
  /// Exactly these groups, which other partitions may share: for successive plans on the same SMs.
  /// Errors   bad_option for no group, an unknown group, or a duplicate.
  partition(int gpu, std::span<const std::uint32_t> groups);
  /// All groups except the first ones, which make up at least `left` SMs, and except those of
  /// exclusive partitions. While this partition lives, no exclusive partition gets its groups.
  /// Errors   too_small if no group remains.
  [[nodiscard]] static partition all_but(int gpu, sm_count left);
  ~partition();
  partition(partition&& other) noexcept;
  partition& operator=(partition&&) = delete;

  [[nodiscard]] sm_count sms() const noexcept { return sms_; }
  /// Makes a stream whose kernels run on these SMs only. The caller destroys it.
  [[nodiscard]] CUstream make_stream(int priority) const;
  /// The context for graph nodes whose kernels run on these SMs.
  [[nodiscard]] CUcontext context() const;
  /// Never releases the SMs: for a GPU that does not respond.
  void abandon() noexcept { context_ = nullptr; }

private:
  enum class kind : std::uint8_t { alone, named, all_but };
  partition(int gpu, kind what) noexcept : gpu_(gpu), kind_(what) {}

  int gpu_ = 0;
  kind kind_ = kind::alone;
  sm_count sms_{};
  CUgreenCtx context_ = nullptr;
  std::vector<std::uint32_t> groups_;
};

/// The adjacent groups, lowest first, that make up at least `wanted` SMs with the fewest to spare.
/// Empty if there are none. `sizes` and `taken` have one element for each group. For partition.
[[nodiscard]] std::vector<std::uint32_t> fewest_groups(const std::vector<std::uint32_t>& sizes,
                                                       const std::vector<bool>& taken,
                                                       std::uint32_t wanted);

/// The free groups behind the first groups that make up at least `left` SMs. For partition.
[[nodiscard]] std::vector<std::uint32_t> groups_but(const std::vector<std::uint32_t>& sizes,
                                                    const std::vector<bool>& taken,
                                                    std::uint32_t left);

} // namespace gsched::cuda
