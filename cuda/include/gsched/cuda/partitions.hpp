// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>

#include <cuda.h>

#include <cstdint>
#include <span>
#include <vector>

namespace gsched::cuda {

/// Sizes of the groups into which the SMs of a GPU are split, in their order: once in a process, as
/// small as the driver makes them; the last is what is left over, where something is. Two splits of
/// one GPU would overlap. Errors   device_failed with CUDA's words.
[[nodiscard]] std::vector<std::uint32_t> group_sizes(int gpu);

/// SMs of a GPU, as a green context, while it lives: some of the groups of its split.
///
/// Errors   device_failed with CUDA's words, and as below.
/// Threads  any: the split is guarded. Set-up: takes about a millisecond.
class partition {
public:
  /// At least that many SMs, as few more as the groups allow, that no other partition made so in
  /// this process has. Errors   too_small where so many are not left.
  partition(int gpu, sm_count wanted);
  /// Just these groups, whoever has them beside it: for plans that follow one another on the same
  /// SMs. Errors   bad_option for no group, one that there is not, or one twice.
  partition(int gpu, std::span<const std::uint32_t> groups);
  /// All groups but the first, which make up at least `left` SMs, and those that a partition of the
  /// first kind has; while it lives, no partition of the first kind gets one of its groups. Errors
  /// too_small where nothing remains.
  [[nodiscard]] static partition all_but(int gpu, sm_count left);
  ~partition();
  partition(partition&& other) noexcept;
  partition& operator=(partition&&) = delete;

  [[nodiscard]] sm_count sms() const noexcept { return sms_; }
  /// A stream whose kernels run on these SMs alone; the caller destroys it.
  [[nodiscard]] CUstream make_stream(int priority) const;
  /// For kernels that are made to run on these SMs, in graphs.
  [[nodiscard]] CUcontext context() const;
  /// Never gives the SMs back: for a GPU that does not answer any more.
  void leave_behind() noexcept { context_ = nullptr; }

private:
  enum class kind : std::uint8_t { alone, named, all_but };
  partition(int gpu, kind what) noexcept : gpu_(gpu), kind_(what) {}

  int gpu_ = 0;
  kind kind_ = kind::alone;
  sm_count sms_{};
  CUgreenCtx context_ = nullptr;
  std::vector<std::uint32_t> groups_;
};

/// Which groups, of sizes in this order, make up at least `wanted` SMs with the fewest to spare:
/// neighbours, as low as they come. Empty where there is no such run. For partition.
[[nodiscard]] std::vector<std::uint32_t> fewest_groups(const std::vector<std::uint32_t>& sizes,
                                                       const std::vector<bool>& taken,
                                                       std::uint32_t wanted);

/// All groups behind the first, which make up at least `left` SMs, that are not taken. For
/// partition.
[[nodiscard]] std::vector<std::uint32_t> groups_but(const std::vector<std::uint32_t>& sizes,
                                                    const std::vector<bool>& taken,
                                                    std::uint32_t left);

} // namespace gsched::cuda
