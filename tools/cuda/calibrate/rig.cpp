// SPDX-License-Identifier: Apache-2.0
#include "calibrate/rig.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <cstring>

namespace calibrate {

using gsched::cuda::check;
using gsched::cuda::driver;

executable::executable(std::span<const node> nodes) {
  CUgraph graph = make_chain(nodes);
  const CUresult made = driver().cuGraphInstantiateWithFlags(&exec_, graph, 0);
  driver().cuGraphDestroy(graph);
  check(made, "instantiating a graph");
}

executable::~executable() {
  if (exec_ != nullptr) driver().cuGraphExecDestroy(exec_);
}

void executable::launch(CUstream on) const {
  check(driver().cuGraphLaunch(exec_, on), "launching a graph");
}

rig::rig(const gsched::cuda::gpu& which) : gpu_(which) {
  check(cudaSetDevice(gpu_.ordinal), "choosing the GPU");
  int khz = 0;
  check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, gpu_.ordinal), "the GPU's clock");
  if (khz > 0) cycles_per_us_ = khz / 1e3;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  stream_.reset(stream);
  for (auto* each : {&begin_, &end_}) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "an event");
    each->reset(event);
  }
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, 64 * lines, cudaHostAllocDefault), "pinned memory");
  pinned_.reset(static_cast<std::uint64_t*>(memory));
  std::memset(memory, 0, 64 * lines);
  check(cudaMalloc(&memory, 64 * lines), "device memory");
  counters_.reset(static_cast<std::uint64_t*>(memory));
  check(cudaMemset(memory, 0, 64 * lines), "device memory");
  for (double us = 2000; us < 100'000; us *= 2) blockers_.emplace_back(spin(cycles(us)));
}

rig::~rig() { cudaStreamSynchronize(stream()); }

double rig::wait_for(std::size_t i, std::uint64_t value) const noexcept {
  while (read(i) < value) {
  }
  return now_us();
}

void rig::notify(std::size_t i, std::uint64_t value) const {
  check(driver().cuStreamWriteValue64(stream(), reinterpret_cast<CUdeviceptr>(line(i)), value, 0),
        "writing a value from a stream");
}

void rig::synchronize() const { check(cudaStreamSynchronize(stream()), "waiting for a stream"); }

double rig::device_us(CUstream on, const std::function<void()>& enqueue) {
  for (; blocker_ < blockers_.size(); ++blocker_) {
    blockers_[blocker_].launch(on);
    check(cudaEventRecord(begin_.get(), on), "recording an event");
    enqueue();
    check(cudaEventRecord(end_.get(), on), "recording an event");
    const cudaError_t begun = cudaEventQuery(begin_.get());
    check(begun == cudaErrorNotReady ? cudaSuccess : begun, "asking an event");
    check(cudaStreamSynchronize(on), "waiting for a stream");
    if (begun == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError()); // not an error: clear it before the next launch
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin_.get(), end_.get()), "reading an event");
      return 1e3 * static_cast<double>(ms);
    }
  } // the GPU overtook the host: try again with a longer blocker
  blocker_ = 0;
  throw gsched::error(gsched::errc::too_small,
                      "the host did not stay ahead of the GPU for 60 ms, expected an idle host");
}

} // namespace calibrate
