// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/notify/report.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace gsched::testing {

/// Control flows of a kernel's threads. Each thread writes one number, which depends on the other
/// threads of its block if they meet.
enum class body {
  straight,         ///< every thread runs to the end
  scattered_return, ///< one thread in three returns at once, the others meet at barriers
  warps_return,     ///< the first warp returns at once, the others meet at barriers
  first_returns,    ///< thread 0 returns at once, the others meet at barriers
  loop_return,      ///< threads leave a loop with barriers one after another
  shared,           ///< numbers pass through all of the dynamic shared memory
  cluster,          ///< numbers come from the next block of the cluster; needs an SM of 9.0
  slow,             ///< thread 0 delays the block for `argument` nanoseconds
};

struct shape {
  body how = body::straight;
  dim3 grid = 1;
  dim3 block = 1;
  std::size_t dynamic_bytes = 0;
  unsigned cluster = 1; ///< blocks along x
  std::uint32_t argument = 0;
  bool instrumented = true;

  [[nodiscard]] std::uint64_t blocks() const noexcept {
    return std::uint64_t{grid.x} * grid.y * grid.z;
  }
  [[nodiscard]] std::uint64_t threads() const noexcept {
    return blocks() * block.x * block.y * block.z;
  }
};

/// Launches the kernel, or captures it if the stream is being captured. `out` has one number for
/// each thread.
cudaError_t launch(const shape& s, cudaStream_t stream, const cuda::report& to, std::uint32_t* out);

} // namespace gsched::testing
