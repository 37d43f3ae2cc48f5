// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "measure/splits.hpp"

#include <gsched/core/quantity.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/replaying.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace measure {

/// Parts of the current GPU, and graphs on them, each made once.
class places {
public:
  explicit places(int gpu);

  /// The SMs of each group.
  [[nodiscard]] const std::vector<std::uint32_t>& groups() const noexcept { return sizes_; }
  [[nodiscard]] gsched::sm_count sms(const group_range& r) const noexcept;
  /// Null for all groups: the whole GPU is no partition.
  /// Errors   as gsched::cuda::sm_numbers; as check_apart for parts without a group in common that
  ///          have an SM in common.
  [[nodiscard]] std::shared_ptr<const gsched::cuda::partition> at(const group_range& r);
  [[nodiscard]] gsched::cuda::placed_graph& placed(const gsched::cuda::program& p,
                                                   const group_range& r);

private:
  int gpu_;
  std::vector<std::uint32_t> sizes_;
  struct part {
    std::shared_ptr<const gsched::cuda::partition> it;
    std::vector<std::uint32_t> sms; ///< numbers
  };
  std::map<group_range, part> parts_;
  std::map<std::pair<const gsched::cuda::program*, group_range>,
           std::unique_ptr<gsched::cuda::placed_graph>>
      graphs_;
};

} // namespace measure
