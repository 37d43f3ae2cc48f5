// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/timeline.hpp"

#include <gsched/cuda/gpu.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/preempt/colocate/rules.hpp>

#include <cstddef>
#include <memory>

namespace padding {

/// The kernels of two profiles as stand-ins of one family, with the same blocks, threads,
/// registers, shared memory and time, and without memory traffic, so that they do not slow one
/// another down by bandwidth. The second program starts again when it ends.
class program_pair {
public:
  program_pair(const gsched::cuda::gpu& on, const gsched::profile& real_time,
               const gsched::profile& best_effort);
  ~program_pair();

  struct figures {
    std::size_t parts = 0;
    double alone_us = 0;   ///< the real-time program
    double padded_us = 0;  ///< with the planned work of the other one beside it
    double in_turn_us = 0; ///< and that work behind it
  };
  /// Each as one graph, launched alternately. That many best-effort programs at once, each from its
  /// start.
  [[nodiscard]] figures run(gsched::level_rule rule, unsigned corunners, unsigned rounds) const;
  static constexpr unsigned most_corunners = 4;
  /// Kernels for which no proxy has enough registers at their block size; they have fewer.
  [[nodiscard]] std::size_t fewer_registers() const;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace padding
