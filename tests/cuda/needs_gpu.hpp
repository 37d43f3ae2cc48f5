// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

namespace gsched::testing {

[[nodiscard]] inline int gpus_here() noexcept {
  int n = 0;
  return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

} // namespace gsched::testing

/// The first line of a test that needs so many GPUs: without them, the test is skipped with a
/// message.
#define GSCHED_NEEDS_GPUS(count)                                                                   \
  do {                                                                                             \
    if (gsched::testing::gpus_here() < (count)) {                                                  \
      MESSAGE("fewer than " #count " GPUs here: passed over");                                     \
      return;                                                                                      \
    }                                                                                              \
  } while (false)

/// The same for one GPU.
#define GSCHED_NEEDS_GPU()                                                                         \
  do {                                                                                             \
    if (gsched::testing::gpus_here() == 0) {                                                       \
      MESSAGE("no GPU here: passed over");                                                         \
      return;                                                                                      \
    }                                                                                              \
  } while (false)
