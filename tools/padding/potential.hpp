// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/profile.hpp>
#include <gsched/job/program.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/program.hpp>
#include <gsched/sim/padded.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace padding {

/// A model as a real-time program and as a co-runner.
struct model {
  std::string name;
  gsched::program program;
  gsched::pad_program padded;
};
/// The copies and sets of a co-runner are left out: a neighbouring kernel can do them.
/// Errors   those of to_program and pad_program.
[[nodiscard]] model to_model(const gsched::profile& p, const gsched::sim::preset& on);

/// The best-effort work that one real-time model could carry, by one form of rule 2.
struct potential {
  std::string real_time;
  std::string corunner;
  gsched::level_rule rule{};
  double share = 0;      ///< mean best-effort time done, of the real-time program's time
  double least = 0;      ///< from the worst place to begin at
  double most = 0;       ///< and from the best
  double padded = 0;     ///< part of the real-time kernels that carry something
  double slowdown = 1;   ///< of the real-time program, predicted
  double throughput = 1; ///< real-time and best-effort time done in the time they take, predicted
};

struct question {
  gsched::pad_options options;
  std::uint32_t corunners = 1; ///< requests of the co-runner model at once, evenly apart
  std::uint32_t starts = 16;   ///< places in the co-runner at which the real-time request starts
  std::uint32_t predicted = 0; ///< of those, how many are simulated: the first ones
};

/// Co-runners start at the first operation that has not begun at that time, and run in order: an
/// operation that does not fit blocks those behind it until the real-time request has ended.
[[nodiscard]] potential potential_of(const model& real_time, const model& corunner,
                                     const question& q, gsched::sim::padded_kernels& predictor);

} // namespace padding
