// SPDX-License-Identifier: Apache-2.0
//
// Constructors that make several things of CUDA and fail on the way leave none of them behind.
#include "calibrate/rig.hpp"
#include "cuda/played.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/preempt/preemptible_launch.hpp>
#include <gsched/cuda_tools/tracing.hpp>

#include <doctest/doctest.h>

#include <climits>
#include <functional>

namespace gsched::testing {
namespace {

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
    } catch (const error&) {
      failed = true;
    }
    CHECK(cuda_played.alive.empty());
    CHECK_FALSE(cuda_played.wrong);
    if (!failed) return n;
  }
  return most;
}

TEST_CASE("a tenant whose flag cannot be written leaves nothing behind") {
  CHECK(fail_each([] { const cuda::tenant t; }) == 6);
}

TEST_CASE("an access recorder that cannot clear its records leaves nothing behind") {
  CHECK(fail_each([] { const cuda::access_recorder r(1000); }) == 7);
}

TEST_CASE("a calibration rig without its memory leaves nothing behind") {
  constexpr int before_graphs = 6;
  const cuda::gpu any{};
  CHECK(fail_each([&] { const calibrate::rig r(any); }, before_graphs) == before_graphs);
}

} // namespace
} // namespace gsched::testing
