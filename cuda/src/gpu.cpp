// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace gsched::cuda {

architecture_limits driver_limits(const cudaDeviceProp& p, bool clusters) {
  // Values that the driver does not report are those of the newest known capability.
  architecture_limits l = detail::limits_of(detail::architecture_rows.back());
  const auto count = [](auto n) { return static_cast<std::uint32_t>(n); };
  l.major = count(p.major);
  l.minor = count(p.minor);
  l.max_threads = count(p.maxThreadsPerMultiProcessor);
  l.max_warps = l.max_threads / count(p.warpSize);
  l.max_blocks = count(p.maxBlocksPerMultiProcessor);
  l.max_threads_per_block = count(p.maxThreadsPerBlock);
  l.registers = count(p.regsPerMultiprocessor);
  l.max_registers_per_block = count(p.regsPerBlock);
  l.shared_bytes = count(p.sharedMemPerMultiprocessor);
  l.reserved_shared_bytes = count(p.reservedSharedMemPerBlock);
  l.max_shared_per_block = count(p.sharedMemPerBlockOptin);
  l.max_static_shared_per_block = count(p.sharedMemPerBlock);
  l.max_cluster_blocks = clusters ? 8 : 0;
  l.max_opt_in_cluster_blocks = clusters ? 16 : 0;
  l.shared_splits.clear();
  l.shared_splits.push_back(l.shared_bytes);
  return l;
}

gpu find_gpu(int ordinal) {
  static_cast<void>(driver()); // throws one line where the driver or a function is missing
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus), "CUDA");
  if (ordinal < 0 || ordinal >= gpus)
    throw error(errc::no_device, "GPU " + std::to_string(ordinal) + ": not there, expected 0 to " +
                                     std::to_string(gpus - 1));
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, ordinal), "GPU properties");
  check(cudaInitDevice(ordinal, 0, 0), "GPU context");
  gpu g;
  g.ordinal = ordinal;
  g.name = p.name;
  int clusters = 0;
  check(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, ordinal), "GPU properties");
  const auto known =
      known_limits(static_cast<std::uint32_t>(p.major), static_cast<std::uint32_t>(p.minor));
  g.sm = known ? *known : driver_limits(p, clusters != 0);
  g.sms = sm_count{static_cast<std::uint32_t>(p.multiProcessorCount)};
  g.memory = byte_count{p.totalGlobalMem};
  g.l2 = byte_count{static_cast<std::uint64_t>(p.l2CacheSize)};
  check(cudaDriverGetVersion(&g.driver_version), "CUDA driver");
  check(cudaRuntimeGetVersion(&g.runtime_version), "CUDA runtime");
  return g;
}

} // namespace gsched::cuda
