// SPDX-License-Identifier: Apache-2.0
#include "cuda/graph/program_kernels.cuh"
#include "cuda/graph/program_samples.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/call.hpp>
#include <gsched/cuda/capture.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace gsched::testing {
namespace {

constexpr int row = arena::row;

TEST_CASE("the work submitted to a stream becomes a program") {
  GSCHED_NEEDS_GPU();
  arena m;
  runner on;
  const auto work = [&](cudaStream_t s) {
    step<<<row / 128, 128, 0, s>>>(m.at(0), m.at(1), row, 1);
    cuda::check(cudaMemsetAsync(m.at(2), 1, 64, s), "set");
    step<<<row / 128, 128, 0, s>>>(m.at(1), m.at(3), row, 2);
  };
  m.reset();
  work(on.stream());
  cuda::check(cudaStreamSynchronize(on.stream()), "run");
  const auto expected = m.snapshot();
  const cuda::program p = cuda::capture(named("work"), work);
  REQUIRE(p.host().size() == 3);
  CHECK(p.host().name() == "work");
  m.reset();
  run_cut(on, p, {1, 3});
  CHECK(m.snapshot() == expected);
}

TEST_CASE("an exception during a capture ends it cleanly and is passed on") {
  GSCHED_NEEDS_GPU();
  arena m;
  CHECK_THROWS_WITH_AS(static_cast<void>(cuda::capture(named("thrown"),
                                                       [&](cudaStream_t s) {
                                                         step<<<1, 32, 0, s>>>(m.at(0), m.at(1), 32,
                                                                               1);
                                                         throw std::runtime_error("not today");
                                                       })),
                       "not today", std::runtime_error);
  CHECK(cudaGetLastError() == cudaSuccess);
  // No capture is open: calls that a capture forbids succeed.
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 256) == cudaSuccess);
  CHECK(cudaFree(p) == cudaSuccess);
  const cuda::program again = cuda::capture(
      named("again"), [&](cudaStream_t s) { step<<<1, 32, 0, s>>>(m.at(0), m.at(1), 32, 1); });
  CHECK(again.host().size() == 1);
}

TEST_CASE("a capture that cannot end is an error of one line") {
  GSCHED_NEEDS_GPU();
  arena m;
  const std::string waited = line_of(
      [&] {
        static_cast<void>(cuda::capture(named("waits"), [&](cudaStream_t s) {
          step<<<1, 32, 0, s>>>(m.at(0), m.at(1), 32, 1);
          CHECK(cudaStreamSynchronize(s) != cudaSuccess); // forbidden in a capture
        }));
      },
      errc::bad_graph);
  CHECK(waited.find("capture of waits: ") == 0);
  CHECK(waited.find("cudaErrorStreamCapture") != std::string::npos);
  CHECK(cudaGetLastError() == cudaSuccess);

  cudaStream_t side = nullptr;
  cudaEvent_t fork = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking), "stream");
  cuda::check(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming), "event");
  const std::string unjoined = line_of(
      [&] {
        static_cast<void>(cuda::capture(named("forks"), [&](cudaStream_t s) {
          cuda::check(cudaEventRecord(fork, s), "event");
          cuda::check(cudaStreamWaitEvent(side, fork), "event");
          step<<<1, 32, 0, side>>>(m.at(0), m.at(1), 32, 1);
        }));
      },
      errc::bad_graph);
  CHECK(unjoined.find("joined") != std::string::npos);
  cudaEventDestroy(fork);
  cudaStreamDestroy(side);

  CHECK(line_of([&] { static_cast<void>(cuda::capture(named("nothing"), [](cudaStream_t) {})); },
                errc::bad_graph) ==
        "graph nothing: nothing to run, expected a kernel, memcpy or memset");
}

TEST_CASE("a kernel is a program of one operation, with the arguments of its capture") {
  GSCHED_NEEDS_GPU();
  arena m;
  runner on;
  word salt = 42;
  const cuda::program p =
      cuda::make_call(named("step"), {row / 64, 64}, step, m.at(0), m.at(1), row, salt);
  salt = 43;
  m.reset();
  step<<<row / 64, 64, 0, on.stream()>>>(m.at(0), m.at(1), row, 42);
  cuda::check(cudaStreamSynchronize(on.stream()), "run");
  const auto expected = m.snapshot();
  m.reset();
  on.run_and_destroy(p.make_range(0, 1, {}));
  CHECK(m.snapshot() == expected);
  CHECK(p.host().operations()[0].launch.grid == extent{row / 64, 1, 1});

  const cuda::program told = cuda::make_call(named("told"), {row / 64, 64}, reporting_step, m.at(0),
                                             cuda::report{}, m.at(1), row);
  CHECK(told.instrumented(0, 1) == 1);
  cuda::call_shape large{row / 64, 64};
  large.dynamic_shared_bytes = 64 * 1024;
  const cuda::program roomy =
      cuda::make_call(named("roomy"), large, shared_step, m.at(0), m.at(1), row);
  CHECK(roomy.host().operations()[0].launch.dynamic_shared_bytes == 64 * 1024);
  large.dynamic_shared_bytes = 1 << 20;
  CHECK(line_of(
            [&] {
              static_cast<void>(
                  cuda::make_call(named("huge"), large, shared_step, m.at(0), m.at(1), row));
            },
            errc::device_failed)
            .find("kernel huge: ") == 0);
  cudaGetLastError();
}

TEST_CASE("without a GPU, a capture fails with one line") {
  if (gpus_here() > 0) return;
  CHECK(!line_of([] { static_cast<void>(cuda::capture("none", [](cudaStream_t) {})); },
                 errc::no_device)
             .empty());
}

} // namespace
} // namespace gsched::testing
