// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace gsched::cuda {

/// The driver's functions, found at run time. A program therefore starts on a machine without a
/// driver and reports that in one line. Graph calls use the driver too, because the runtime does
/// not know the kernels of another copy of itself, such as a framework's.
///
/// Each entry is the driver's function of that name, as this toolkit's cuda.h declares it.
#define GSCHED_CUDA_DRIVER_FUNCTIONS(X)                                                            \
  X(cuCtxGetCurrent)                                                                               \
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

/// Functions that only partitions need. Drivers before CUDA 12.5 lack them.
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
  GSCHED_CUDA_PARTITION_FUNCTIONS(GSCHED_CUDA_DECLARE) // null if the driver lacks it
#undef GSCHED_CUDA_DECLARE
};

/// The driver's functions, looked up once.
/// Errors   gsched::error: no_device without a driver or a GPU, or if the driver lacks a function
///          of the first list; the line names the function.
[[nodiscard]] const driver_functions& driver();
/// The same, with the functions of partitions.
/// Errors   also no_device, naming the function, if the driver lacks one of the second list.
[[nodiscard]] const driver_functions& driver_of_partitions();

/// Errors   no_device, naming the first null function of the first list.
void expect_functions(const driver_functions& f);
/// Errors   no_device, naming the first null function of the second list.
void expect_partition_functions(const driver_functions& f);

} // namespace gsched::cuda
