// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/notify/report.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace soak {

enum class body : std::uint32_t {
  nothing, ///< returns at once
  returns, ///< some threads return early, the others meet at barriers
  stays,   ///< blocks take a few hundred cycles, each a different number
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
