// SPDX-License-Identifier: Apache-2.0
//
// Constructors that make several things of CUDA and fail on the way leave none of them behind.
// CUDA's calls are replaced at link time (-Wl,--wrap), so no GPU is needed.
#include "calibrate/rig.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/preemptible_launch.hpp>
#include <gsched/cuda/tracing.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>

namespace {

/// What plays CUDA: it gives out addresses of its own, and fails one call.
struct played {
  int calls_until_failure = INT_MAX;
  std::uintptr_t next = 0x1000;
  std::set<std::uintptr_t> alive{};
  bool wrong = false; ///< something was destroyed that was not there

  [[nodiscard]] bool fails() { return --calls_until_failure < 0; }
  template <class T>
  [[nodiscard]] cudaError_t make(T** out) {
    if (fails()) return cudaErrorUnknown;
    alive.insert(next += 0x1000);
    *out = reinterpret_cast<T*>(next);
    return cudaSuccess;
  }
  cudaError_t destroy(const void* p) {
    if (p != nullptr && alive.erase(reinterpret_cast<std::uintptr_t>(p)) == 0) wrong = true;
    return cudaSuccess;
  }
  [[nodiscard]] cudaError_t work() { return fails() ? cudaErrorUnknown : cudaSuccess; }
};
played cuda_played;

CUresult write_value(CUstream, CUdeviceptr, cuuint32_t, unsigned int) {
  return cuda_played.fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

/// Fails the first call, then the second, and so on, until `make` does not throw or `most` calls
/// were failed. Returns how many were.
int fail_each(const std::function<void()>& make, int most = INT_MAX) {
  for (int n = 0; n < most; ++n) {
    CAPTURE(n);
    cuda_played = {};
    cuda_played.calls_until_failure = n;
    bool failed = false;
    try {
      make();
    } catch (const gsched::error&) {
      failed = true;
    }
    CHECK(cuda_played.alive.empty());
    CHECK_FALSE(cuda_played.wrong);
    if (!failed) return n;
  }
  return most;
}

} // namespace

// The names are those that the linker's --wrap gives.
extern "C" {
cudaError_t __wrap_cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  return cuda_played.make(s);
}
cudaError_t __wrap_cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int) {
  return cuda_played.make(s);
}
cudaError_t __wrap_cudaStreamDestroy(cudaStream_t s) { return cuda_played.destroy(s); }
cudaError_t __wrap_cudaEventCreate(cudaEvent_t* e) { return cuda_played.make(e); }
cudaError_t __wrap_cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  return cuda_played.make(e);
}
cudaError_t __wrap_cudaEventDestroy(cudaEvent_t e) { return cuda_played.destroy(e); }
cudaError_t __wrap_cudaMalloc(void** p, std::size_t) { return cuda_played.make(p); }
cudaError_t __wrap_cudaFree(void* p) { return cuda_played.destroy(p); }
cudaError_t __wrap_cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  static std::array<std::uint64_t, 64> memory; // the host writes to it
  if (bytes > sizeof memory || cuda_played.fails()) return cudaErrorUnknown;
  *p = memory.data();
  cuda_played.alive.insert(reinterpret_cast<std::uintptr_t>(*p));
  return cudaSuccess;
}
cudaError_t __wrap_cudaFreeHost(void* p) { return cuda_played.destroy(p); }
cudaError_t __wrap_cudaMemset(void*, int, std::size_t) { return cuda_played.work(); }
cudaError_t __wrap_cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t) {
  return cuda_played.work();
}
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t) { return cuda_played.work(); }
cudaError_t __wrap_cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cuda_played.work();
}
cudaError_t __wrap_cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) {
  return cudaSuccess;
}
cudaError_t __wrap_cudaSetDevice(int) { return cudaSuccess; }
cudaError_t __wrap_cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0;
  return cudaSuccess;
}
const gsched::cuda::driver_functions* __wrap__ZN6gsched4cuda6driverEv() {
  static const gsched::cuda::driver_functions all = [] {
    gsched::cuda::driver_functions f{};
    f.cuStreamWriteValue32 = write_value;
    return f;
  }();
  return &all;
}
}

TEST_CASE("a tenant whose flag cannot be written leaves nothing behind") {
  CHECK(fail_each([] { const gsched::cuda::tenant t; }) == 6);
}

TEST_CASE("an access recorder that cannot clear its records leaves nothing behind") {
  CHECK(fail_each([] { const gsched::cuda::access_recorder r(1000); }) == 7);
}

TEST_CASE("a calibration rig without its memory leaves nothing behind") {
  constexpr int before_graphs = 6;
  const gsched::cuda::gpu any{};
  CHECK(fail_each([&] { const calibrate::rig r(any); }, before_graphs) == before_graphs);
}
