// SPDX-License-Identifier: Apache-2.0
#include "graph/build/memory_kernels.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>

namespace gsched::cuda {

namespace {

constexpr std::uint32_t threads = 256;
constexpr std::uint64_t chunk = 16;         ///< bytes of one access
constexpr std::uint64_t most_blocks = 1056; ///< eight for each SM of an H200

__device__ std::uint64_t row_offset(std::uint64_t row, std::uint64_t height, std::uint64_t pitch,
                                    std::uint64_t slice) {
  return height == 1 ? row * slice : row / height * slice + row % height * pitch;
}

/// Calls f(row, offset in the row, bytes) for each chunk of this thread.
template <class F>
__device__ void for_each_chunk(const memory_work& w, F f) {
  const std::uint64_t in_row = (w.width + chunk - 1) / chunk;
  const std::uint64_t all = in_row * w.height * w.depth;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * threads;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x; i < all; i += stride) {
    const std::uint64_t row = in_row == all ? 0 : i / in_row;
    const std::uint64_t at = (i - row * in_row) * chunk;
    const std::uint64_t left = w.width - at;
    f(row, at, left < chunk ? left : chunk);
  }
}

__global__ void __launch_bounds__(threads) set_memory(memory_work w) {
  for_each_chunk(w, [&](std::uint64_t row, std::uint64_t at, std::uint64_t bytes) {
    const std::uint64_t to = w.to + row_offset(row, w.height, w.to_pitch, w.to_slice) + at;
    if (bytes == chunk && to % chunk == 0) {
      *reinterpret_cast<uint4*>(to) = make_uint4(w.pattern, w.pattern, w.pattern, w.pattern);
      return;
    }
    for (std::uint64_t k = 0; k < bytes; ++k)
      *reinterpret_cast<unsigned char*>(to + k) =
          static_cast<unsigned char>(w.pattern >> (8 * (k % 4)));
  });
}

template <class T>
__device__ void copy_as(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  for (std::uint64_t k = 0; k < bytes; k += sizeof(T))
    *reinterpret_cast<T*>(to + k) = *reinterpret_cast<const T*>(from + k);
}

__global__ void __launch_bounds__(threads) copy_memory(memory_work w) {
  for_each_chunk(w, [&](std::uint64_t row, std::uint64_t at, std::uint64_t bytes) {
    const std::uint64_t to = w.to + row_offset(row, w.height, w.to_pitch, w.to_slice) + at;
    const std::uint64_t from = w.from + row_offset(row, w.height, w.from_pitch, w.from_slice) + at;
    const std::uint64_t all = to | from | bytes;
    if (all % 16 == 0)
      copy_as<uint4>(to, from, bytes);
    else if (all % 4 == 0)
      copy_as<std::uint32_t>(to, from, bytes);
    else
      copy_as<unsigned char>(to, from, bytes);
  });
}

CUkernel kernel_of(const void* function) {
  cudaKernel_t kernel = nullptr;
  check(cudaGetKernel(&kernel, function), "kernel that sets or copies");
  return reinterpret_cast<CUkernel>(kernel);
}

/// The address by which a kernel on `gpu` reaches one end of a copy; empty if it cannot.
std::optional<std::uint64_t> reach(CUmemorytype type, const void* host, CUdeviceptr device,
                                   int gpu) noexcept {
  if (type == CU_MEMORYTYPE_ARRAY) return std::nullopt;
  const CUdeviceptr p = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host) : device;
  const driver_functions& d = driver();
  unsigned kind = 0;
  int owner = gpu;
  CUdeviceptr there = 0;
  if (d.cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) != CUDA_SUCCESS ||
      d.cuPointerGetAttribute(&there, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p) != CUDA_SUCCESS)
    return std::nullopt;
  if (kind == CU_MEMORYTYPE_DEVICE &&
      (d.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p) != CUDA_SUCCESS ||
       owner != gpu))
    return std::nullopt;
  return there;
}

} // namespace

memory_work work_of(const CUDA_MEMSET_NODE_PARAMS& s) noexcept {
  memory_work w;
  w.to = s.dst;
  w.to_pitch = s.pitch;
  w.width = std::uint64_t{s.elementSize} * s.width;
  w.height = std::max<std::uint64_t>(s.height, 1);
  w.pattern = s.elementSize == 1   ? (s.value & 0xff) * 0x0101'0101
              : s.elementSize == 2 ? (s.value & 0xffff) * 0x0001'0001
                                   : s.value;
  return w;
}

std::optional<memory_work> work_of(const CUDA_MEMCPY3D& c, int gpu) noexcept {
  const auto to = reach(c.dstMemoryType, c.dstHost, c.dstDevice, gpu);
  const auto from = reach(c.srcMemoryType, c.srcHost, c.srcDevice, gpu);
  if (!to || !from) return std::nullopt;
  memory_work w;
  w.to_pitch = c.dstPitch;
  w.to_slice = c.dstPitch * c.dstHeight;
  w.from_pitch = c.srcPitch;
  w.from_slice = c.srcPitch * c.srcHeight;
  w.to = *to + c.dstZ * w.to_slice + c.dstY * w.to_pitch + c.dstXInBytes;
  w.from = *from + c.srcZ * w.from_slice + c.srcY * w.from_pitch + c.srcXInBytes;
  w.width = c.WidthInBytes;
  w.height = std::max<std::uint64_t>(c.Height, 1);
  w.depth = std::max<std::uint64_t>(c.Depth, 1);
  return w;
}

CUgraphNode add_memory_kernel(CUgraph graph, const memory_work& work, CUcontext place,
                              const std::string& what) {
  const std::uint64_t chunks = (work.width + chunk - 1) / chunk * work.height * work.depth;
  memory_work argument = work;
  void* arguments[] = {&argument};
  CUDA_KERNEL_NODE_PARAMS k{};
  k.kern = kernel_of(work.from == 0 ? reinterpret_cast<const void*>(&set_memory)
                                    : reinterpret_cast<const void*>(&copy_memory));
  k.ctx = place;
  k.gridDimX = static_cast<unsigned>(
      std::clamp<std::uint64_t>((chunks + threads - 1) / threads, 1, most_blocks));
  k.gridDimY = k.gridDimZ = 1;
  k.blockDimX = threads;
  k.blockDimY = k.blockDimZ = 1;
  k.kernelParams = arguments;
  CUgraphNode made = nullptr;
  check(driver().cuGraphAddKernelNode(&made, graph, nullptr, 0, &k), what.c_str());
  return made;
}

} // namespace gsched::cuda
