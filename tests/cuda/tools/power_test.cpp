// SPDX-License-Identifier: Apache-2.0
#include "cuda/needs_gpu.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda_tools/power.hpp>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace gsched::testing {
namespace {

TEST_CASE("reasons for lower clocks have names") {
  using names = std::vector<std::string>;
  CHECK(cuda::throttle_reasons(0).empty());
  CHECK(cuda::throttle_reasons(1) == names{"idle"});
  CHECK(cuda::throttle_reasons(0x4 | 0x40) == names{"power limit", "temperature"});
  CHECK(cuda::throttle_reasons(std::uint64_t{1} << 40) == names{"bit 40"});
}

TEST_CASE("power and clocks are sampled between start and stop") {
  GSCHED_NEEDS_GPU();
  if (dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) {
    CHECK_THROWS_AS(cuda::power_sampler(0), error); // one line
    return;
  }
  cuda::power_sampler sampler(0, std::chrono::milliseconds{5});
  for (int turn = 0; turn < 2; ++turn) {
    sampler.start();
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
    const cuda::power_readings r = sampler.stop();
    CHECK(r.count > 1);
    CHECK(r.sm_mhz >= r.least_sm_mhz);
    CHECK(r.least_sm_mhz > 0);
    CHECK(r.busy_percent <= 100);
  }
}

} // namespace
} // namespace gsched::testing
