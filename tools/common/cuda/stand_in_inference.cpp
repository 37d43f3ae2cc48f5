// SPDX-License-Identifier: Apache-2.0
#include "common/cuda/stand_in_inference.hpp"

#include "common/run/preemptible_profile.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda_tools/stand_in.hpp>

#include <cuda_runtime_api.h>

namespace common {

using namespace gsched;

stand_in_inference::way::way(copy_direction direction, byte_count bytes) {
  cudaError_t e = cudaHostAlloc(&pinned, bytes.count(), cudaHostAllocPortable);
  if (e == cudaSuccess) e = cudaMalloc(&device, bytes.count());
  if (e != cudaSuccess) {
    static_cast<void>(cudaFreeHost(pinned));
    cuda::check(e, "memory for inputs and outputs");
  }
  const bool to_device = direction == copy_direction::host_to_device;
  action.to = to_device ? device : pinned;
  action.from = to_device ? pinned : device;
  work = action.as_operation(direction, bytes.count());
}

stand_in_inference::way::~way() {
  static_cast<void>(cudaFree(device));
  static_cast<void>(cudaFreeHost(pinned));
}

stand_in_inference::stand_in_inference(const profile& of, preemptibility leaves,
                                       std::uint32_t instances) {
  for (std::uint32_t i = 0; i < instances; ++i)
    graphs_.push_back(cuda::make_stand_in(preemptible_profile(of, leaves)));
  if (of.input.count() > 0) in_ = std::make_unique<way>(copy_direction::host_to_device, of.input);
  if (of.output.count() > 0)
    out_ = std::make_unique<way>(copy_direction::device_to_host, of.output);
}

task stand_in_inference::operator()(job_context& ctx) {
  const stream_id s = ctx.default_stream();
  if (in_) ctx.launch(s, in_->work);
  ctx.launch(s, graphs_[ctx.instance].host());
  if (out_) ctx.launch(s, out_->work);
  co_return;
}

} // namespace common
