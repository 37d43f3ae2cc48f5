// SPDX-License-Identifier: Apache-2.0
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda_tools/graph_accesses.hpp>
#include <gsched/cuda_tools/idempotence_check.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gsched::testing {

using word = std::uint32_t;

__global__ void add_to(const word* in, word* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] += in[i];
}
__global__ void twice(const word* in, word* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = 2 * in[i];
}
/// A pointer at an address of a struct that is no multiple of 8; compilers make none.
struct pack {
  int n;
  float by;
  const word* in;
  word* out[2];
};
__global__ void by_struct(pack p) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < p.n) p.out[0][i] = p.out[1][i] = p.in[i];
}
__global__ void by_pointers(word* const* where, int n) {
  if (threadIdx.x == 0 && n > 0) where[0][0] = 1;
}
__global__ void by_nothing() {}
extern "C" __global__ void graph_accesses_plain_name(const word* in, word* out) {
  if (threadIdx.x == 0) out[0] = in[0];
}

namespace {

constexpr int each = 1000;
constexpr std::size_t bytes = each * sizeof(word);

/// Separate allocations.
struct buffers {
  word* at[4] = {};
  buffers() {
    for (word*& p : at) {
      cuda::check(cudaMalloc(&p, bytes), "test memory");
      fill(p, 3);
    }
  }
  ~buffers() {
    for (word* p : at) cudaFree(p);
  }
  static void fill(word* p, word value) {
    const std::vector<word> all(each, value);
    cuda::check(cudaMemcpy(p, all.data(), bytes, cudaMemcpyHostToDevice), "test memory");
  }
  [[nodiscard]] static std::vector<word> values(const word* p) {
    std::vector<word> all(each);
    cuda::check(cudaMemcpy(all.data(), p, bytes, cudaMemcpyDeviceToHost), "test memory");
    return all;
  }
};

/// The ranges of all these allocations, as the driver reports them.
access_set whole(std::initializer_list<const void*> pointers) {
  std::vector<byte_range> all;
  for (const void* p : pointers) {
    CUdeviceptr first = 0;
    std::size_t size = 0;
    const auto a = reinterpret_cast<CUdeviceptr>(p);
    cuda::check(
        cuda::driver().cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, a),
        "test");
    cuda::check(cuda::driver().cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, a),
                "test");
    all.push_back({first, first + size});
  }
  return access_set(std::move(all));
}

template <class F>
cuda::program made(const char* name, F&& f) {
  cuda::program_options how;
  how.name = name;
  how.measure = false;
  return cuda::capture(how, f);
}

TEST_CASE("GPU: kernels access the allocations that their arguments point into") {
  GSCHED_NEEDS_GPU();
  const buffers b;
  const cuda::program p = made("kernels", [&](cudaStream_t s) {
    add_to<<<4, 256, 0, s>>>(b.at[0] + 10, b.at[1] + each / 2, 100);
    by_struct<<<4, 256, 0, s>>>(pack{each, 1.0f, b.at[0], {b.at[2], b.at[3]}});
    by_pointers<<<1, 32, 0, s>>>(reinterpret_cast<word* const*>(b.at[0]), 0);
    by_nothing<<<1, 32, 0, s>>>();
    graph_accesses_plain_name<<<1, 32, 0, s>>>(b.at[0], b.at[1]);
  });
  const access_trace t = accesses_of(p);
  REQUIRE(t.operations.size() == 5);
  CHECK(t.model == "kernels");
  CHECK(t.operations[0].reads == whole({b.at[0], b.at[1]}));
  CHECK(t.operations[0].writes == whole({b.at[1]}));
  CHECK(t.operations[0].assumed);
  CHECK(t.operations[0].name.find("add_to(unsigned int const*, unsigned int*, int)") !=
        std::string::npos);
  CHECK(t.operations[1].reads == whole({b.at[0], b.at[2], b.at[3]}));
  CHECK(t.operations[1].writes == t.operations[1].reads); // a struct parameter has no const
  CHECK(t.operations[2].says == declared::clobbers);
  CHECK(t.operations[3].says == declared::clobbers); // no visible writes
  CHECK(t.operations[4].writes == whole({b.at[0], b.at[1]}));
  CHECK(t.operations[4].says == declared::nothing);

  const access_trace distrusted = accesses_of(p, {.trust_const = false});
  CHECK(distrusted.operations[0].writes == whole({b.at[0], b.at[1]}));
}

TEST_CASE("GPU: copies and sets are exact") {
  GSCHED_NEEDS_GPU();
  const buffers b;
  const cuda::program p = made("copies", [&](cudaStream_t s) {
    cuda::check(cudaMemsetAsync(b.at[0] + 3, 0, 40, s), "test");
    cuda::check(cudaMemcpyAsync(b.at[1] + 1, b.at[2] + 2, 400, cudaMemcpyDeviceToDevice, s),
                "test");
    cuda::check(cudaMemcpy2DAsync(b.at[3], 64, b.at[2], 32, 16, 5, cudaMemcpyDeviceToDevice, s),
                "test");
  });
  const access_trace t = accesses_of(p);
  REQUIRE(t.operations.size() == 3);
  const auto at = [](const word* q) { return reinterpret_cast<std::uint64_t>(q); };
  CHECK(t.operations[0].kind == operation_kind::memset);
  CHECK(t.operations[0].writes == access_set({{at(b.at[0] + 3), at(b.at[0] + 13)}}));
  CHECK(t.operations[0].reads.empty());
  CHECK(t.operations[1].kind == operation_kind::memcpy);
  CHECK(t.operations[1].reads == access_set({{at(b.at[2] + 2), at(b.at[2] + 102)}}));
  CHECK(t.operations[1].writes == access_set({{at(b.at[1] + 1), at(b.at[1] + 101)}}));
  std::vector<byte_range> rows;
  for (std::uint64_t y = 0; y < 5; ++y)
    rows.push_back({at(b.at[3]) + y * 64, at(b.at[3]) + y * 64 + 16});
  CHECK(t.operations[2].writes == access_set(std::move(rows)));
  CHECK(t.operations[2].reads.bytes() == 80);
}

TEST_CASE("GPU: a clobbering kernel that is declared idempotent is detected, and has run once") {
  GSCHED_NEEDS_GPU();
  const buffers b;
  const cuda::program p = made("net", [&](cudaStream_t s) {
    twice<<<4, 256, 0, s>>>(b.at[0], b.at[1], each);
    add_to<<<4, 256, 0, s>>>(b.at[0], b.at[1] + 500, 100);
    twice<<<4, 256, 0, s>>>(b.at[1], b.at[2], each);
  });
  access_trace what = accesses_of(p);
  what.operations[0].says = declared::idempotent;
  what.operations[2].says = declared::idempotent;
  CHECK_FALSE(cuda::find_clobber(p, what));
  std::vector<word> expected(each, 6);
  std::fill(expected.begin() + 500, expected.begin() + 600, 9);
  CHECK(buffers::values(b.at[1]) == expected);

  what.operations[1].says = declared::idempotent;
  const auto found = cuda::find_clobber(p, what);
  REQUIRE(found);
  CHECK(found->operation == 1);
  const auto first = reinterpret_cast<std::uint64_t>(b.at[1] + 500);
  CHECK(found->range == byte_range{first, first + 400});
  CHECK(buffers::values(b.at[1]) == expected); // as after one run
  for (word& w : expected) w *= 2;
  CHECK(buffers::values(b.at[2]) == expected);
  try {
    cuda::check_idempotent(p);
    CHECK(false);
  } catch (const error& e) {
    const std::string line = e.what();
    CAPTURE(line);
    CHECK(line.starts_with("graph net: operation 1, gsched::testing::add_to("));
    CHECK(line.find("its second run changed bytes 0x") != std::string::npos);
  }
  what.operations.pop_back();
  CHECK_THROWS_AS(cuda::check_idempotent(p, what), error);
}

} // namespace
} // namespace gsched::testing
