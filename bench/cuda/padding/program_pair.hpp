// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/timeline.hpp"

#include <gsched/cuda/gpu.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/preempt/colocate/rules.hpp>

#include <cstddef>
#include <memory>

namespace padding {

/// Two profiles' kernels as stand-ins of one family: of the same blocks, threads, registers, shared
/// memory and time, which do nothing else, so that they do not slow one another by bandwidth.
/// The second program begins again when it ends.
class program_pair {
public:
  program_pair(const gsched::cuda::gpu& on, const gsched::profile& real_time,
               const gsched::profile& best_effort);
  ~program_pair();

  struct figures {
    std::size_t parts = 0;
    double alone_us = 0;   ///< the real-time program
    double padded_us = 0;  ///< with what of the other one is planned to run beside it
    double in_turn_us = 0; ///< and that work behind it
  };
  /// Each as one graph, launched in turn. So many of the best-effort program at once, each from its
  /// start.
  [[nodiscard]] figures run(gsched::level_rule rule, unsigned guests, unsigned rounds) const;
  static constexpr unsigned most_guests = 4;
  /// Kernels whose registers no proxy has for blocks of their size; they have fewer.
  [[nodiscard]] std::size_t fewer_registers() const;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace padding
