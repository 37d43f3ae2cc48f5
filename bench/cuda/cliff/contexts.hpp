// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/error.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <vector>

namespace cliff {

/// One stream in each of `n` green contexts of `sms` SMs; 0: one context with all SMs.
[[nodiscard]] std::vector<cudaStream_t> green_streams(unsigned groups, unsigned sms);

/// A new context of this process, not current.
[[nodiscard]] CUcontext second_context();

void push_context(CUcontext context);
void pop_context();

/// Calls f while that context is current.
template <class F>
void in_context(CUcontext context, F f) {
  push_context(context);
  f();
  pop_context();
}

} // namespace cliff
