// SPDX-License-Identifier: Apache-2.0
#include "engines.hpp"

#include "events.hpp"
#include "serving.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/policy/names.hpp>

#include <type_traits>

namespace gsched::abi {

std::unique_ptr<engine> make_cuda_engine(desk& at, const settings& how) {
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
  std::unique_ptr<engine> made;
  visit_policy(how.policy, [&]<class P>(std::type_identity<P>) {
    made = std::make_unique<serving<P, cuda::device>>(
        at, how, [&] { return cuda::device(o); }, cuda_events);
  });
  return made;
}

} // namespace gsched::abi
