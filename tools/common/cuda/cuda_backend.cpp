// SPDX-License-Identifier: Apache-2.0
#include "common/cuda/cuda_backend.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace common {

using namespace gsched;

cuda::gpu open_gpu(const device_choice& which) {
  // The driver reads it when it starts, which is later.
  if (which.queues) setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(*which.queues).c_str(), 1);
  cuda::gpu found = cuda::find_gpu(which.gpu.value());
  cuda::check(cudaSetDevice(found.ordinal), "GPU");
  return found;
}

cuda::device cuda_backend::make_device(const configuration& how) const {
  cuda::device_options o;
  o.gpu = gpu;
  o.max_segments = how.dispatch.max_segments;
  o.copies = how.copies;
  if (how.scheduled) {
    o.grain = how.dispatch.quantum;
    const auto longest =
        static_cast<std::uint64_t>(how.dispatch.most_quantum / how.dispatch.quantum);
    o.levels = std::clamp(static_cast<unsigned>(std::bit_width(longest)), 1u, 16u);
    o.whole = how.dispatch.preemption.real_time_lanes > 0; // real-time jobs run whole
  } else {
    o.grain = std::chrono::hours{1}; // whole graphs
    o.levels = 1;
  }
  return device(o);
}

void cuda_backend::spend(const device& d, duration t) noexcept {
  for (const time_point until = d.now() + t; d.now() < until;) {
  }
}

void cuda_backend::submitted(const job& j, const segment& s, time_point now) noexcept {
  if (in_flight++ == 0) since = now;
  if (record != nullptr) record->submitted(j, s, now);
}

void cuda_backend::landed(segment_id id, time_point now) noexcept {
  if (--in_flight == 0) worked += now - since;
  if (record != nullptr) record->completed(id, now);
}

void cuda_backend::finish(const device& d, const dispatch_statistics& s) {
  if (!d.failure()) return;
  throw error(errc::device_failed, *d.failure() + "; of " + std::to_string(s.submitted) +
                                       " requests " + std::to_string(s.finished) +
                                       " finished and " + std::to_string(s.submitted - s.finished) +
                                       " did not");
}

} // namespace common
