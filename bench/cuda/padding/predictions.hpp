// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/selections.hpp"

#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/preempt/colocate/pad_limits.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace padding {

/// What the law of contention says of pairs of kernels that were counted alone: slow-downs, and the
/// limits of the selections by pad_limits.
class predictions {
public:
  /// Kernel i of a chain is subject i of that role.
  predictions(gsched::kernel_chain real_time, gsched::kernel_chain corunners,
              const gsched::contention_law& law)
      : real_time_(std::move(real_time)), corunners_(std::move(corunners)), law_(law) {
    for (const selection s : every_selection)
      if (const auto slowdown = predicted_limit(s))
        limits_.push_back({s, gsched::pad_limits(real_time_, corunners_, law_, *slowdown)});
  }

  /// The predicted time beside so many blocks, over the time of the proxy without co-runners.
  [[nodiscard]] double slowdown(std::size_t real_time, std::size_t corunner,
                                std::uint32_t blocks) const noexcept {
    return padded_slowdown(real_time_.kernels[real_time], corunners_.kernels[corunner], blocks,
                           real_time_.sms, law_);
  }

  /// The most blocks that a selection allows; no_limit for one that predicts nothing.
  [[nodiscard]] std::uint32_t most(selection by, std::size_t real_time,
                                   std::size_t corunner) const noexcept {
    for (const limit& l : limits_)
      if (l.by == by) return l.table.most(real_time, corunner);
    return gsched::pad_limits::no_limit;
  }

private:
  struct limit {
    selection by;
    gsched::pad_limits table;
  };

  gsched::kernel_chain real_time_, corunners_;
  gsched::contention_law law_;
  std::vector<limit> limits_;
};

} // namespace padding
