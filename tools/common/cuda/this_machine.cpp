// SPDX-License-Identifier: Apache-2.0
#include "common/cuda/this_machine.hpp"

#include "common/report/today.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda_tools/installed_driver.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace common {

gsched::machine this_machine(const gsched::cuda::gpu& on) {
  gsched::machine m;
  m.gpu = on.name;
  m.compute_capability = std::to_string(on.sm.major) + '.' + std::to_string(on.sm.minor);
  m.sms = on.sms;
  m.sm_groups = gsched::cuda::group_sizes(on.ordinal);
  m.l2 = on.l2;
  m.memory = on.memory;
  m.driver = gsched::cuda::installed_driver();
  m.cuda = gsched::cuda::cuda_version(on.runtime_version);
  m.gsched = GSCHED_VERSION;
  m.date = today();
  return m;
}

} // namespace common
