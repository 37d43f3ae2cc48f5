// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace gsched::cuda {

/// What the driver offers beyond the runtime, found at run time, so that a program starts on a
/// machine without a driver and says so in one line. Graphs go through here as well: the runtime
/// does not know the kernels of another copy of itself, such as a framework's.
///
/// Each entry is the driver's function of that name, as cuda.h of this toolkit declares it.
#define GSCHED_CUDA_DRIVER_FUNCTIONS(X)                                                            \
  X(cuCtxGetCurrent)                                                                               \
  X(cuCtxGetDevice)                                                                                \
  X(cuCtxPopCurrent)                                                                               \
  X(cuCtxPushCurrent)                                                                              \
  X(cuEventQuery)                                                                                  \
  X(cuEventRecord)                                                                                 \
  X(cuFuncGetAttribute)                                                                            \
  X(cuFuncGetName)                                                                                 \
  X(cuFuncGetParamInfo)                                                                            \
  X(cuFuncSetAttribute)                                                                            \
  X(cuGraphAddDependencies)                                                                        \
  X(cuGraphAddEmptyNode)                                                                           \
  X(cuGraphAddEventRecordNode)                                                                     \
  X(cuGraphAddEventWaitNode)                                                                       \
  X(cuGraphAddHostNode)                                                                            \
  X(cuGraphAddKernelNode)                                                                          \
  X(cuGraphAddMemcpyNode)                                                                          \
  X(cuGraphAddMemsetNode)                                                                          \
  X(cuGraphChildGraphNodeGetGraph)                                                                 \
  X(cuGraphClone)                                                                                  \
  X(cuGraphCreate)                                                                                 \
  X(cuGraphDestroy)                                                                                \
  X(cuGraphEventRecordNodeGetEvent)                                                                \
  X(cuGraphEventWaitNodeGetEvent)                                                                  \
  X(cuGraphExecDestroy)                                                                            \
  X(cuGraphExecMemcpyNodeSetParams)                                                                \
  X(cuGraphExecMemsetNodeSetParams)                                                                \
  X(cuGraphGetEdges)                                                                               \
  X(cuGraphGetNodes)                                                                               \
  X(cuGraphHostNodeGetParams)                                                                      \
  X(cuGraphInstantiateWithFlags)                                                                   \
  X(cuGraphKernelNodeGetAttribute)                                                                 \
  X(cuGraphKernelNodeGetParams)                                                                    \
  X(cuGraphKernelNodeSetAttribute)                                                                 \
  X(cuGraphKernelNodeSetParams)                                                                    \
  X(cuGraphLaunch)                                                                                 \
  X(cuGraphMemcpyNodeGetParams)                                                                    \
  X(cuGraphMemsetNodeGetParams)                                                                    \
  X(cuGraphNodeFindInClone)                                                                        \
  X(cuGraphNodeGetType)                                                                            \
  X(cuGraphUpload)                                                                                 \
  X(cuKernelGetFunction)                                                                           \
  X(cuLaunchKernelEx)                                                                              \
  X(cuMemcpy3DAsync)                                                                               \
  X(cuMemcpyAsync)                                                                                 \
  X(cuMemsetD16Async)                                                                              \
  X(cuMemsetD2D16Async)                                                                            \
  X(cuMemsetD2D32Async)                                                                            \
  X(cuMemsetD2D8Async)                                                                             \
  X(cuMemsetD32Async)                                                                              \
  X(cuMemsetD8Async)                                                                               \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor)                                                   \
  X(cuPointerGetAttribute)                                                                         \
  X(cuStreamDestroy)                                                                               \
  X(cuStreamWriteValue32)                                                                          \
  X(cuStreamWriteValue64)

/// Functions that only partitions need, and that drivers before CUDA 12.5 lack.
#define GSCHED_CUDA_PARTITION_FUNCTIONS(X)                                                         \
  X(cuCtxFromGreenCtx)                                                                             \
  X(cuDevResourceGenerateDesc)                                                                     \
  X(cuDevSmResourceSplitByCount)                                                                   \
  X(cuDeviceGetDevResource)                                                                        \
  X(cuGreenCtxCreate)                                                                              \
  X(cuGreenCtxDestroy)                                                                             \
  X(cuGreenCtxStreamCreate)

struct driver_functions {
#define GSCHED_CUDA_DECLARE(name) decltype(&::name) name = nullptr;
  GSCHED_CUDA_DRIVER_FUNCTIONS(GSCHED_CUDA_DECLARE)
  GSCHED_CUDA_PARTITION_FUNCTIONS(GSCHED_CUDA_DECLARE) // null where the driver lacks it
#undef GSCHED_CUDA_DECLARE
};

/// Looked up once.
/// Errors   gsched::error: no_device where there is no driver, no GPU, or a driver that lacks a
///          function of the first list; the line names the function.
[[nodiscard]] const driver_functions& driver();
/// The same, for partitions.
/// Errors   also no_device, naming the function, where the driver lacks one of the second list.
[[nodiscard]] const driver_functions& driver_of_partitions();

/// Errors   no_device, naming the first function of the first list that is null.
void expect_functions(const driver_functions& f);
/// Errors   the same for the second list.
void expect_partition_functions(const driver_functions& f);

} // namespace gsched::cuda
