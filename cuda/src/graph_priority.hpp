// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

namespace gsched::cuda {

/// Gives a new kernel node the priority of another node, as a node of another priority would go
/// through another of the GPU's queues. False if that is not a kernel.
inline bool copy_priority(CUgraphNode from, CUgraphNode to, const char* what) {
  const driver_functions& cu = driver();
  CUgraphNodeType type{};
  CUkernelNodeAttrValue v{};
  check(cu.cuGraphNodeGetType(from, &type), what);
  if (type != CU_GRAPH_NODE_TYPE_KERNEL ||
      cu.cuGraphKernelNodeGetAttribute(from, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &v) != CUDA_SUCCESS)
    return false;
  if (v.priority != 0)
    check(cu.cuGraphKernelNodeSetAttribute(to, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &v), what);
  return true;
}

} // namespace gsched::cuda
