// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace memory_nodes {

struct run_options {
  double seconds = 40;
  unsigned kernels = 240;
  double kernel_us = 5;
  unsigned neighbours = 1;
  unsigned long_kernels = 60;
  double long_kernel_us = 100;
  unsigned small = 1024;
  unsigned large = 64u << 20;
  unsigned sms = 0;
  int gpu = 0;
  std::string json;
};

/// Measures in turns: each graph, in both ways, alone and beside the neighbours, on SMs of its own
/// and on all SMs. Prints a table at the end.
void run(const run_options& o);

} // namespace memory_nodes
