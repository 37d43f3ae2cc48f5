// SPDX-License-Identifier: Apache-2.0
#include "serve_on_gpu.hpp"

#include "cuda_events.hpp"
#include "serve.hpp"

#include <gsched/cuda/device.hpp>

namespace gsched::abi {

std::unique_ptr<gsched::server> serve_on_gpu(const settings& how) {
  cuda::device_options o;
  o.gpu = how.gpu;
  o.max_segments = how.dispatch.max_segments;
  o.instrumented = how.dispatch.instrumented;
  o.grain = how.grain;
  o.levels = how.levels;
  o.whole = how.dispatch.preemption.real_time_lanes > 0; // as real-time requests go
  o.watchdog = how.watchdog;
  o.time_driver = how.time_driver;
  o.lease = how.lease;
  return serve(
      how, [o] { return cuda::device(o); }, [](cuda::device& d) { return cuda_events(d); });
}

} // namespace gsched::abi
