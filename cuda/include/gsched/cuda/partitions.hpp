// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>

#include <cuda.h>

#include <cstdint>
#include <vector>

namespace gsched::cuda {

/// SMs that no other partition of the same plan in this process has, as a green context, while it
/// lives.
///
/// Each GPU's SMs are split once in a process, into groups as small as the driver makes them and
/// what is left over; a partition is some of these groups. Two splits of one GPU would overlap.
/// Plans are numbers that the caller gives out: partitions of different plans lie over one another,
/// so that those of the next plan can be there before the last one is left.
///
/// Errors   too_small where so many SMs are not left; device_failed with CUDA's words.
/// Threads  any: the split is guarded. Set-up: takes about a millisecond.
class partition {
public:
  /// At least that many SMs of a GPU: as few more as the groups allow.
  partition(int gpu, sm_count wanted, std::uint32_t plan = 0);
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
  int gpu_ = 0;
  std::uint32_t plan_ = 0;
  sm_count sms_{};
  CUgreenCtx context_ = nullptr;
  std::vector<std::uint32_t> groups_;
};

/// Which groups, of sizes in this order, make up at least `wanted` SMs with the fewest to spare:
/// neighbours, as low as they come. Empty where there is no such run. For partition.
[[nodiscard]] std::vector<std::uint32_t> fewest_groups(const std::vector<std::uint32_t>& sizes,
                                                       const std::vector<bool>& taken,
                                                       std::uint32_t wanted);

} // namespace gsched::cuda
