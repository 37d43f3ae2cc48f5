// SPDX-License-Identifier: Apache-2.0
#include "cuda/needs_gpu.hpp"

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda_tools/beside_probe.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <vector>

namespace gsched {
namespace {

TEST_CASE("starting probes does not slow graphs of small kernels for good") {
  GSCHED_NEEDS_GPU();
  operation small;
  small.launch.grid = {1, 1, 1};
  small.launch.block = {32, 1, 1};
  small.launch.registers_per_thread = 32;
  small.expected = from_us(1);
  const cuda::program chain = cuda::make_stand_in(program("small", std::vector(300, small)));
  const CUgraph graph = chain.make_range(0, chain.host().size(), {});
  cuda::beside_options o;
  o.turns = 4;
  o.turn_ms = 4;
  std::vector<double> alone;
  // Each time on other streams, with more than 16 starts in all. A probe on all SMs, as the driver
  // makes no kernel of the smallest sets.
  for (int i = 0; i < 8; ++i) {
    const cuda::beside_result r = cuda::measure_beside(graph, {}, {}, o);
    CHECK(r.probe_rate_alone > 0);
    CHECK(r.last.stopped);
    CHECK(r.last.sms == r.probe_sms.count());
    alone.push_back(r.alone.median);
  }
  static_cast<void>(cudaGraphDestroy(graph));
  MESSAGE("at first " << alone.front() << " us, at last " << alone.back());
  CHECK(alone.back() < 1.05 * alone.front());
}

} // namespace
} // namespace gsched
