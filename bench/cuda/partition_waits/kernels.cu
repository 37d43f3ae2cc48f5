// SPDX-License-Identifier: Apache-2.0
#include "partition_waits/kernels.hpp"

namespace partition_waits {

namespace {

__device__ void wait(std::uint64_t cycles) {
  const std::int64_t start = clock64();
  while (clock64() - start < static_cast<std::int64_t>(cycles)) {
  }
}

__global__ void spin(spin_arguments a) { wait(a.cycles); }

/// The index is not known to the compiler, so that the array is in local memory.
template <std::uint32_t Bytes>
__global__ void spin_with_local(spin_arguments a) {
  volatile std::uint32_t words[Bytes / 4];
  const auto at = static_cast<std::uint32_t>(a.cycles + threadIdx.x) % (Bytes / 4);
  words[at] = threadIdx.x;
  wait(a.cycles);
  if (a.never != nullptr) *a.never = words[(at + 1) % (Bytes / 4)];
}

__global__ void set_words(set_arguments a) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < a.words;
       i += std::uint64_t{gridDim.x} * blockDim.x)
    a.to[i] = 0;
}

template <class Kernel>
const void* handle(Kernel* k) noexcept {
  return reinterpret_cast<const void*>(k);
}

} // namespace

const void* spin_kernel(std::uint32_t local_bytes) noexcept {
  switch (local_bytes) {
  case 16: return handle(&spin_with_local<16>);
  case 1024: return handle(&spin_with_local<1024>);
  case 16384: return handle(&spin_with_local<16384>);
  default: return handle(&spin);
  }
}

const void* set_kernel() noexcept { return handle(&set_words); }

} // namespace partition_waits
