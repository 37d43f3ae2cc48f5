// SPDX-License-Identifier: Apache-2.0
#include "cliff/contexts.hpp"
#include "cliff/experiments.hpp"

#include <gsched/cuda/driver.hpp>

#include <cudaTypedefs.h>

namespace cliff {

using gsched::cuda::check;
using gsched::cuda::driver;

namespace {

template <class Function>
Function entry(const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how{};
  check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &how), name);
  return reinterpret_cast<Function>(found);
}

} // namespace

std::vector<cudaStream_t> green_streams(unsigned groups, unsigned sms) {
  const auto& d = driver();
  CUdevResource all{};
  check(d.cuDeviceGetDevResource(this_program().gpu, &all, CU_DEV_RESOURCE_TYPE_SM), "SM resource");
  std::vector<CUdevResource> parts(groups);
  unsigned made = groups;
  if (sms == 0) {
    parts.assign(1, all);
    made = 1;
  } else {
    CUdevResource rest{};
    check(d.cuDevSmResourceSplitByCount(parts.data(), &made, &all, &rest, 0, sms), "SM split");
  }
  std::vector<cudaStream_t> streams;
  for (unsigned i = 0; i < made; ++i) {
    CUdevResourceDesc how = nullptr;
    check(d.cuDevResourceGenerateDesc(&how, &parts[i], 1), "green context");
    CUgreenCtx context = nullptr;
    check(d.cuGreenCtxCreate(&context, how, this_program().gpu, CU_GREEN_CTX_DEFAULT_STREAM),
          "green context");
    CUstream on = nullptr;
    check(d.cuGreenCtxStreamCreate(&on, context, CU_STREAM_NON_BLOCKING, 0), "green stream");
    streams.push_back(on);
  }
  return streams;
}

CUcontext second_context() {
  CUcontext made = nullptr;
  check(entry<PFN_cuCtxCreate_v3020>("cuCtxCreate", 3020)(&made, 0, this_program().gpu),
        "second context");
  pop_context();
  return made;
}

void push_context(CUcontext context) {
  check(entry<PFN_cuCtxPushCurrent_v4000>("cuCtxPushCurrent", 4000)(context), "context");
}

void pop_context() {
  CUcontext was = nullptr;
  check(entry<PFN_cuCtxPopCurrent_v4000>("cuCtxPopCurrent", 4000)(&was), "context");
}

} // namespace cliff
