// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

/// Which SMs the kernels of a process get.
namespace mps_sms {

struct run_options {
  double seconds = 1;
  unsigned parts = 1;                ///< streams, each on all SMs of the process
  std::vector<std::uint32_t> shares; ///< percent of the SMs of each partition; empty: streams
  unsigned blocks = 4;               ///< held for each SM of a part
  double victim_us = 200;
  int gpu = 0;
  bool commands = false;
  std::string json;
};

/// An option or a command that is wrong, in one line.
struct bad_input : std::runtime_error {
  using runtime_error::runtime_error;
};

/// Holds blocks on the SMs of all parts and prints which SMs these were, or does as the lines of
/// standard input say until it ends. Ends the process with status 3 if a step hangs.
/// Errors   bad_input; gsched::error with CUDA's message.
void run(const run_options& o);

} // namespace mps_sms
