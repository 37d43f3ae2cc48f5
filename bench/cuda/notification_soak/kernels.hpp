// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/report.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace soak {

enum class body : std::uint32_t {
  nothing, ///< returns at once
  returns, ///< threads return here and there, the rest meet at barriers
  stays,   ///< blocks keep their place for a few hundred cycles, each for another time
};
inline constexpr std::uint32_t bodies = 3;

struct work {
  body how = body::nothing;
  unsigned blocks = 1;
  unsigned threads = 1;
  std::uint32_t group = 1;
};

cudaError_t launch(const work& w, cudaStream_t stream, const gsched::cuda::report& to);

} // namespace soak
