// SPDX-License-Identifier: Apache-2.0
#include "plan_switch/seat.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

namespace plan_switch {

namespace cuda = gsched::cuda;

seat::seat(int gpu, std::span<const std::uint32_t> groups, const cuda::program& first,
           const cuda::program& model)
    : partition_(std::make_shared<const cuda::partition>(gpu, groups)),
      stream_(partition_->make_stream(0)), first_(first, partition_), model_(model, partition_) {
  first_.upload(stream_);
  model_.upload(stream_);
  void* host = nullptr;
  cuda::check(cudaHostAlloc(&host, 2 * sizeof(std::uint64_t), cudaHostAllocMapped), "words");
  words_ = static_cast<std::uint64_t*>(host);
  words_[0] = words_[1] = 0;
  void* there = nullptr;
  cuda::check(cudaHostGetDevicePointer(&there, host, 0), "words");
  words_there_ = reinterpret_cast<CUdeviceptr>(there);
}

seat::~seat() {
  static_cast<void>(cudaStreamSynchronize(stream_));
  static_cast<void>(cudaStreamDestroy(stream_));
  static_cast<void>(cudaFreeHost(words_));
}

void seat::submit() {
  const auto& cu = cuda::driver();
  ++requests_;
  first_.launch(stream_);
  cuda::check(cu.cuStreamWriteValue64(stream_, words_there_, requests_, 0), "word");
  model_.launch(stream_);
  cuda::check(cu.cuStreamWriteValue64(stream_, words_there_ + sizeof(std::uint64_t), requests_, 0),
              "word");
}

} // namespace plan_switch
