// SPDX-License-Identifier: Apache-2.0
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <doctest/doctest.h>

#include <string>

namespace gsched {
namespace {

TEST_CASE("a code of CUDA's speaks CUDA's words") {
  const std::error_code e = cuda::code_of(cudaErrorMemoryAllocation);
  CHECK(e.message() == "out of memory (cudaErrorMemoryAllocation)");
  CHECK(cuda::code_of(CUDA_ERROR_OUT_OF_MEMORY) == e);
  CHECK(!cuda::code_of(cudaSuccess));
  try {
    cuda::check(cudaErrorMemoryAllocation, "segment graphs of resnet18");
    FAIL("no error");
  } catch (const error& thrown) {
    CHECK(thrown.code() == errc::device_failed);
    CHECK(std::string(thrown.what()) ==
          "segment graphs of resnet18: out of memory (cudaErrorMemoryAllocation)");
  }
}

TEST_CASE("where there is no GPU, one line says so") {
  if (testing::gpus_here() > 0) return;
  try {
    static_cast<void>(cuda::find_gpu(0));
    FAIL("no error");
  } catch (const error& thrown) {
    CHECK(thrown.code() == errc::no_device);
    const std::string line = thrown.what();
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.find("driver") != std::string::npos);
  }
}

TEST_CASE("a GPU is found by its number, and others are refused") {
  GSCHED_NEEDS_GPU();
  const cuda::gpu g = cuda::find_gpu(0);
  CHECK(!g.name.empty());
  CHECK(g.sms.count() > 0);
  CHECK(g.sm.max_threads >= 1024);
  for (const int wrong : {-1, testing::gpus_here()}) {
    try {
      static_cast<void>(cuda::find_gpu(wrong));
      FAIL("no error");
    } catch (const error& thrown) {
      CHECK(thrown.code() == errc::no_device);
      CHECK(std::string(thrown.what()).find("expected 0 to") != std::string::npos);
    }
  }
}

} // namespace
} // namespace gsched
