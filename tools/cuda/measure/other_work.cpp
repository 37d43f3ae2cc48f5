// SPDX-License-Identifier: Apache-2.0
#include "measure/other_work.hpp"

#include <fmt/format.h>

namespace measure {

namespace {

std::string in_use(const std::string& gpu, const std::string& what) {
  return fmt::format("{}: {}: is the GPU in use?", gpu, what);
}

} // namespace

std::string uneven_replays(const std::string& gpu, const gsched::cuda::replay_times& t) {
  constexpr double most = 0.1; // in which work on the same SMs differs
  if (t.mean <= (1 + most) * t.p10) return {};
  return in_use(gpu, fmt::format("the same graph takes {:.1f} us at best and {:.1f} us in the mean "
                                 "of {}, expected at most {:.0f}% more",
                                 t.p10, t.mean, t.count, 100 * most));
}

std::string late_replays(const std::string& gpu, const gsched::cuda::replay_times& t,
                         double each_us, std::size_t count) {
  constexpr double most_waited = 0.3; // of its time
  if (each_us <= (1 + most_waited) * t.p10) return {};
  return in_use(gpu,
                fmt::format("a graph that takes {:.1f} us begins and ends in {:.1f} us, in the "
                            "mean of {}, expected at most {:.0f}% more",
                            t.p10, each_us, count, 100 * most_waited));
}

} // namespace measure
