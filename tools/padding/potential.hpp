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

/// A model as a real-time program and as a guest.
struct model {
  std::string name;
  gsched::program program;
  gsched::pad_program padded;
};
/// A guest's copies and sets are left out: any of its neighbours can do them on the way.
/// Errors   those of to_program and pad_program.
[[nodiscard]] model to_model(const gsched::profile& p, const gsched::sim::preset& on);

/// What one real-time model could carry of another one, by one form of rule 2.
struct potential {
  std::string real_time;
  std::string guest;
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
  std::uint32_t guests = 1;  ///< requests of the guest model at once, evenly apart
  std::uint32_t starts = 16; ///< places in the guest's time at which the real-time request finds it
  std::uint32_t predicted = 0; ///< of those, how many are simulated: the first ones
};

/// Guests stand before the first operation that has not begun at that time, and are in order: one
/// that does not fit holds up what is behind it until the real-time request is done.
[[nodiscard]] potential potential_of(const model& real_time, const model& guest, const question& q,
                                     gsched::sim::padded_kernels& predictor);

} // namespace padding
