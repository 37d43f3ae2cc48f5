// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace gsched::testing {

/// out[i] = in[i] after `spin` steps of a generator, xor k.
void launch_step(cudaStream_t s, const std::uint32_t* in, std::uint32_t* out, std::uint32_t n,
                 std::uint32_t k, std::uint32_t spin);
/// What launch_step does, on the host.
[[nodiscard]] inline std::uint32_t step_on_host(std::uint32_t v, std::uint32_t k,
                                                std::uint32_t spin) {
  for (std::uint32_t s = 0; s < spin; ++s) v = v * 1664525u + 1013904223u;
  return v ^ k;
}

/// Runs until *flag is all ones.
void launch_for_ever(cudaStream_t s, const std::uint32_t* flag, std::uint32_t* out);
/// Writes where no memory is.
void launch_out_of_bounds(cudaStream_t s, std::uint32_t* out);

} // namespace gsched::testing
