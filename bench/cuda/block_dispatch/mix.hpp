// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

namespace block_dispatch {

/// A tenant's jobs: chains of equal kernels.
struct tenant {
  std::string name;
  unsigned kernels = 1;      ///< of a job
  unsigned blocks = 1;       ///< of a kernel
  unsigned threads = 128;    ///< of a block
  unsigned shared_bytes = 0; ///< of a block, dynamic
  double block_us = 10;      ///< that a block stays
  unsigned stride = 0;       ///< each stride-th block stays `factor` times as long; 0: none does
  unsigned factor = 1;
  double share = 0; ///< of the load, in GPU time
};

/// Three tenants, the shortest jobs first.
struct mix {
  std::string name;
  std::array<tenant, 3> tenants;
};

/// Shapes   for an SM with 2,048 threads and 227 KiB of shared memory, and 132 SMs; they are the
///          same on other GPUs.
[[nodiscard]] inline std::vector<mix> all_mixes() {
  return {
      {"shared_memory", // blocks that exclude one another from an SM, and blocks that fit anywhere
       {{{"short", 3, 66, 128, 0, 20, 0, 1, 0.01},
         {"medium", 6, 132, 256, 100u << 10, 120, 0, 1, 0.4},
         {"long", 6, 396, 128, 200u << 10, 200, 0, 1, 0.59}}}},
      {"uneven", // the last blocks of a kernel leave most of the GPU empty
       {{{"short", 3, 132, 256, 0, 20, 0, 1, 0.02},
         {"medium", 6, 264, 512, 0, 100, 32, 5, 0.4},
         {"long", 4, 1056, 512, 0, 150, 64, 8, 0.58}}}},
      {"two_sizes", // an SM with a medium block cannot hold a long one, although half of it is free
       {{{"short", 3, 66, 128, 0, 20, 0, 1, 0.01},
         {"medium", 6, 132, 128, 70u << 10, 120, 0, 1, 0.45},
         {"long", 6, 66, 128, 170u << 10, 200, 0, 1, 0.54}}}},
      {"waves", // kernels of several even waves, as large layers are
       {{{"short", 3, 264, 256, 0, 20, 0, 1, 0.02},
         {"medium", 8, 528, 512, 0, 80, 0, 1, 0.4},
         {"long", 6, 2112, 512, 0, 150, 0, 1, 0.58}}}},
  };
}

} // namespace block_dispatch
