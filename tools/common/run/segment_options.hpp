// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cli/command_line.hpp"

#include <gsched/core/time.hpp>

#include <string>

namespace common {

/// How work is cut into segments, and how much of it is in flight.
struct segment_settings {
  gsched::duration quantum{};      ///< device time of a segment
  gsched::duration most_quantum{}; ///< of one while no other request waits
  double overshoot = 0;            ///< GPUs' worth of blocks in flight beyond the first
};

/// --quantum, --most-quantum and --overshoot.
class segment_options {
public:
  /// With defaults in microseconds.
  segment_options(const char* quantum_us, const char* most_quantum_us)
      : quantum_(quantum_us), most_quantum_(most_quantum_us) {}

  void declare(command_line& line);
  /// A --most-quantum that is not given is at least --quantum.
  /// Errors   gsched::error with one line; bad_option for a --quantum above --most-quantum.
  [[nodiscard]] segment_settings read(const command_line& line) const;

private:
  std::string quantum_, most_quantum_, overshoot_ = "4";
};

} // namespace common
