// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace instrumentation {

struct options {
  std::vector<unsigned> blocks{16, 160, 528, 1584};
  std::vector<unsigned> threads{128};
  unsigned repetitions = 3000; ///< of each variant
  unsigned launches = 1000;    ///< back to back
  unsigned rounds = 30;        ///< of those, each variant
  double kernel_us = 2;        ///< what a kernel takes that is launched back to back
  unsigned nap_ns = 20;        ///< between its looks at the clock
  bool rivals = false;
  std::size_t slots = std::size_t{1} << 16; ///< of the ring, where single launches are measured
  double seconds = 240;                     ///< no further part starts after that time
  int gpu = 0;
  std::string json;
};

/// Measures, prints a table, writes the JSON.
void run(const options& o);

} // namespace instrumentation
