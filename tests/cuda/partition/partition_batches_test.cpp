// SPDX-License-Identifier: Apache-2.0
#include "cuda/device/device_driven.hpp"
#include "cuda/needs_gpu.hpp"
#include "serving/batch_runner_conformance.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partition_batches.hpp>
#include <gsched/cuda/partition/partitions.hpp>

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gsched::testing {
namespace {

using namespace std::chrono_literals;

cuda::partition_batches_options small() {
  cuda::partition_batches_options o;
  o.batches = {{1, 2, 4, 8}};
  return o;
}

/// A batch takes half a millisecond for each request on its SMs.
cuda::program_lease batch_of(const cuda::batch_program& b) {
  const double us = 500.0 * b.batch / 4;
  return std::make_shared<cuda::program>(stand_ins("batch", 4, kernel_of(b.sms.count(), 1024, us)));
}

TEST_CASE("batches on partitions of a GPU satisfy the batch_runner concept") {
  GSCHED_NEEDS_GPU();
  for (const std::size_t spare : {32u, 1u}) {
    cuda::partition_batches_options o = small();
    o.spare = spare;
    cuda::partition_batches runner(o, batch_of);
    batch_runner_conformance<cuda::partition_batches>{runner}.run();
    CHECK(runner.statistics().made > 0);
    CHECK(runner.statistics().kept > 0);
    if (spare == 1) CHECK(runner.statistics().let_go > 0);
  }
}

TEST_CASE("a switch of plans does not slow a running batch: nothing else starts on its SMs") {
  GSCHED_NEEDS_GPU();
  // A batch of 8 runs longer than building the next plan takes, whose kernels are calibrated.
  cuda::partition_batches runner(small(), [](const cuda::batch_program& b) {
    const double us = b.batch == 8 ? 100e3 : 50;
    return std::make_shared<cuda::program>(stand_ins("batch", 4, kernel_of(8, 1024, us)));
  });
  batch_runner_conformance<cuda::partition_batches> d{runner};
  const std::uint32_t half = 8 * (cuda::find_gpu(0).sms.count() / 16 - 1);
  d.switch_to({half, half});
  d.begin(0, 8);
  d.plan = d.plan_of({8, 8});
  runner.prepare([&] { return &d.plan; });
  const time_point asked = runner.now();
  while (!runner.try_prepared()) runner.wait(asked + 20s);
  for (served_partition& p : d.partitions) p.planned = false;
  d.partitions.resize(4);
  for (const std::size_t i : {2u, 3u}) {
    d.partitions[i].sms = sm_count{8};
    d.partitions[i].planned = true;
    d.partitions[i].portions.emplace_back().model = 0;
  }
  runner.activate(d.partitions);
  REQUIRE(!runner.try_end());
  CHECK(!runner.is_available(2)); // both use its lowest groups
  CHECK(!runner.is_available(3));
  CHECK(d.wait_end() == 0);
  CHECK(runner.is_available(2));
  CHECK(runner.is_available(3));
}

TEST_CASE("a program is leased to one partition at a time, and spare partitions return theirs") {
  GSCHED_NEEDS_GPU();
  std::mutex guard;
  std::map<std::uint32_t, int> out; // by batch size: programs leased now
  const int most = 3;
  const cuda::program_source source = [&](const cuda::batch_program& b) -> cuda::program_lease {
    {
      const std::lock_guard lock(guard);
      if (out[b.batch] == most) return nullptr;
      ++out[b.batch];
    }
    auto* p = new cuda::program(stand_ins("batch", 1, kernel_of(8, 256, 50)));
    return std::shared_ptr<cuda::program>(p, [&, batch = b.batch](cuda::program* of) {
      delete of;
      const std::lock_guard lock(guard);
      --out[batch];
    });
  };
  {
    cuda::partition_batches runner(small(), source);
    batch_runner_conformance<cuda::partition_batches> d{runner};
    for (const std::vector<std::uint32_t>& sizes :
         std::vector<std::vector<std::uint32_t>>{{8, 8}, {16}, {24}, {8, 16}, {32}}) {
      d.switch_to(sizes);
      for (std::uint32_t i = 0; i < d.partitions.size(); ++i)
        if (d.partitions[i].planned) d.begin(i, 3);
      for (std::size_t i = 0; i < sizes.size(); ++i) static_cast<void>(d.wait_end());
    }
    CHECK(runner.statistics().let_go > 0);
    d.plan = d.plan_of({8, 8, 8, 8});
    runner.prepare([&] { return &d.plan; });
    CHECK_THROWS_WITH_AS(d.wait_prepared(), doctest::Contains("expected one more"), error);
    d.switch_to({16, 8}); // and serving continues
    d.begin(0, 1);
    static_cast<void>(d.wait_end());
  }
  for (const auto& [batch, n] : out) CHECK(n == 0);
}

TEST_CASE("bad options of partitions are named in one line") {
  GSCHED_NEEDS_GPU();
  cuda::partition_batches_options o = small();
  o.gpus.clear();
  CHECK_THROWS_AS(cuda::partition_batches(o, batch_of), error);
  o = small();
  o.gpus = {1000};
  CHECK_THROWS_AS(cuda::partition_batches(o, batch_of), error);
  for (const std::vector<std::uint32_t>& bad :
       std::vector<std::vector<std::uint32_t>>{{}, {2, 1}, {1, 1}, {0, 1}}) {
    o = small();
    o.batches.push_back(bad);
    CHECK_THROWS_AS(cuda::partition_batches(o, batch_of), error);
  }
  cuda::partition_batches runner(small(), batch_of);
  batch_runner_conformance<cuda::partition_batches> d{runner};
  d.plan = d.plan_of({10'000});
  runner.prepare([&] { return &d.plan; });
  CHECK_THROWS_WITH_AS(d.wait_prepared(), doctest::Contains("10000 SMs"), error);
  d.plan = d.plan_of({8});
  d.plan.gpulets[0].portions[0].model = 5;
  runner.prepare([&] { return &d.plan; });
  CHECK_THROWS_WITH_AS(d.wait_prepared(), doctest::Contains("model 5"), error);
  d.plan = d.plan_of({8});
  d.plan.gpulets[0].gpu = 7;
  runner.prepare([&] { return &d.plan; });
  CHECK_THROWS_WITH_AS(d.wait_prepared(), doctest::Contains("GPU 7"), error);
}

} // namespace
} // namespace gsched::testing
