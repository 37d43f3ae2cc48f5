// SPDX-License-Identifier: Apache-2.0
#include "program_node.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace gsched::cuda {

namespace {

bool is_array(CUmemorytype t) noexcept { return t == CU_MEMORYTYPE_ARRAY; }

/// Where a copy without rows starts, for an end that is no array.
CUdeviceptr start_of(CUmemorytype type, const void* host, CUdeviceptr device, std::size_t x,
                     std::size_t y, std::size_t z, std::size_t pitch, std::size_t height) noexcept {
  const CUdeviceptr base =
      type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host) : device;
  return base + (z * height + y) * pitch + x;
}

/// Most copies are of one row, for which the driver's plain call takes any two pointers.
CUresult launch_copy(const CUDA_MEMCPY3D& c, CUstream stream) noexcept {
  const bool rows = c.Height > 1 || c.Depth > 1;
  if (rows || is_array(c.srcMemoryType) || is_array(c.dstMemoryType))
    return driver().cuMemcpy3DAsync(&c, stream);
  return driver().cuMemcpyAsync(start_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstXInBytes,
                                         c.dstY, c.dstZ, c.dstPitch, c.dstHeight),
                                start_of(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcXInBytes,
                                         c.srcY, c.srcZ, c.srcPitch, c.srcHeight),
                                c.WidthInBytes, stream);
}

CUresult launch_set(const CUDA_MEMSET_NODE_PARAMS& s, CUstream stream) noexcept {
  const driver_functions& d = driver();
  const auto byte = static_cast<unsigned char>(s.value);
  const auto two = static_cast<unsigned short>(s.value);
  if (s.height <= 1) {
    if (s.elementSize == 1) return d.cuMemsetD8Async(s.dst, byte, s.width, stream);
    if (s.elementSize == 2) return d.cuMemsetD16Async(s.dst, two, s.width, stream);
    return d.cuMemsetD32Async(s.dst, s.value, s.width, stream);
  }
  if (s.elementSize == 1)
    return d.cuMemsetD2D8Async(s.dst, s.pitch, byte, s.width, s.height, stream);
  if (s.elementSize == 2)
    return d.cuMemsetD2D16Async(s.dst, s.pitch, two, s.width, s.height, stream);
  return d.cuMemsetD2D32Async(s.dst, s.pitch, s.value, s.width, s.height, stream);
}

} // namespace

CUresult program_node::launch(CUstream stream, const report* to) const noexcept {
  if (type == CU_GRAPH_NODE_TYPE_MEMCPY) return launch_copy(copy, stream);
  if (type == CU_GRAPH_NODE_TYPE_MEMSET) return launch_set(set, stream);
  CUlaunchConfig how{};
  how.gridDimX = kernel.gridDimX;
  how.gridDimY = kernel.gridDimY;
  how.gridDimZ = kernel.gridDimZ;
  how.blockDimX = kernel.blockDimX;
  how.blockDimY = kernel.blockDimY;
  how.blockDimZ = kernel.blockDimZ;
  how.sharedMemBytes = kernel.sharedMemBytes;
  how.hStream = stream;
  how.attrs = const_cast<CUlaunchAttribute*>(attributes.data());
  how.numAttrs = attribute_count;
  if (to == nullptr || !reports_by)
    return driver().cuLaunchKernelEx(&how, function, kernel.kernelParams, kernel.extra);
  std::array<void*, max_reported_arguments> with{};
  std::copy(arguments.begin(), arguments.end(), with.begin());
  with[*reports_by] = const_cast<report*>(to);
  return driver().cuLaunchKernelEx(&how, function, with.data(), nullptr);
}

CUgraphNode program_node::add_to(CUgraph graph, const adding& how, const std::string& where) const {
  const driver_functions& d = driver();
  if (how.as_kernel && work) return add_memory_kernel(graph, *work, how.place, where);
  CUgraphNode made = nullptr;
  if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
    CUDA_KERNEL_NODE_PARAMS k = kernel;
    std::vector<void*> with;
    if (how.to != nullptr || how.leaves != nullptr) {
      with = arguments;
      if (how.to != nullptr) with[reports_by.value()] = const_cast<report*>(how.to);
      if (how.leaves != nullptr)
        with[leaves_by.value().argument] = const_cast<preemption*>(how.leaves);
      k.kernelParams = with.data();
      k.extra = nullptr;
    }
    return add_kernel_node(graph, k, captured, how.place, where);
  }
  CUcontext here = nullptr;
  check(d.cuCtxGetCurrent(&here), where.c_str());
  if (type == CU_GRAPH_NODE_TYPE_MEMCPY)
    check(d.cuGraphAddMemcpyNode(&made, graph, nullptr, 0, &copy, here), where.c_str());
  else
    check(d.cuGraphAddMemsetNode(&made, graph, nullptr, 0, &set, here), where.c_str());
  return made;
}

} // namespace gsched::cuda
