// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace channel_bench {

/// What is served: a graph of sets, with an input and an output.
struct shape {
  std::uint32_t in_bytes = 600'000;
  std::uint32_t out_bytes = 4000;
  std::uint32_t sets = 10; ///< of 1 MiB
};

/// Of one request, in microseconds.
struct times {
  double total = 0;          ///< as its caller sees it
  double there_and_back = 0; ///< not at the server
  double scheduling = 0;     ///< at the server, before its first work is submitted
  double device = 0;         ///< from then until the server has seen the end
};

/// Alone on the GPU, by events: medians in microseconds.
struct parts {
  double graph = 0;
  double copies = 0;
};

} // namespace channel_bench
