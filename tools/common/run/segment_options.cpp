// SPDX-License-Identifier: Apache-2.0
#include "common/run/segment_options.hpp"

#include "common/cli/option_values.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace common {

void segment_options::declare(command_line& line) {
  line.option("--quantum", quantum_, "US", "Device time of a segment, the unit of dispatch");
  line.option("--most-quantum", most_quantum_, "US",
              "Segments of a request grow up to this while no other\nrequest waits to be "
              "dispatched; at least --quantum");
  line.option("--overshoot", overshoot_, "X",
              "Thread blocks kept in flight beyond one full GPU,\nas a multiple of that");
}

segment_settings segment_options::read(const command_line& line) const {
  segment_settings s;
  s.quantum = to_us("--quantum", quantum_, 1e9, true);
  s.most_quantum = to_us("--most-quantum", most_quantum_, 1e9);
  if (!line.is_given("--most-quantum")) s.most_quantum = std::max(s.most_quantum, s.quantum);
  if (s.quantum > s.most_quantum)
    refuse("--quantum",
           fmt::format("{} us is above --most-quantum, {} us", gsched::to_us(s.quantum),
                       gsched::to_us(s.most_quantum)),
           "at most as much");
  s.overshoot = to_number("--overshoot", overshoot_, {0, 1e6});
  return s;
}

} // namespace common
