// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace gsched::testing {

/// out[i] = in[i] after `spin` steps of a generator, xor k.
void launch_step(cudaStream_t s, const std::uint32_t* in, std::uint32_t* out, std::uint32_t n,
                 std::uint32_t k, std::uint32_t spin);
/// The same, by a kernel that reports its blocks.
void launch_reporting_step(cudaStream_t s, const std::uint32_t* in, std::uint32_t* out,
                           std::uint32_t n, std::uint32_t k, std::uint32_t spin);
/// What launch_step does, on the host: so many steps of the generator are one, of other numbers.
class host_step {
public:
  explicit host_step(std::uint32_t spin) noexcept {
    for (std::uint32_t s = 0; s < spin; ++s) {
      add_ = add_ * 1664525u + 1013904223u;
      times_ *= 1664525u;
    }
  }
  [[nodiscard]] std::uint32_t operator()(std::uint32_t v, std::uint32_t k) const noexcept {
    return (v * times_ + add_) ^ k;
  }

private:
  std::uint32_t times_ = 1;
  std::uint32_t add_ = 0;
};

/// Runs until *flag is all ones.
void launch_for_ever(cudaStream_t s, const std::uint32_t* flag, std::uint32_t* out);
/// Writes where no memory is.
void launch_out_of_bounds(cudaStream_t s, std::uint32_t* out);

} // namespace gsched::testing
