// SPDX-License-Identifier: Apache-2.0
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda_tools/traced_ptr.cuh>
#include <gsched/cuda_tools/tracing.hpp>
#include <gsched/preempt/idempotence.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

using cuda::access_recorder;
using cuda::trace_sink;
using cuda::traced_ptr;

/// Floats in device memory.
class floats {
public:
  explicit floats(std::size_t n) : n_(n) {
    cuda::check(cudaMalloc(&at_, n * sizeof(float)), "test memory");
    cuda::check(cudaMemset(at_, 0, n * sizeof(float)), "test memory");
  }
  ~floats() { cudaFree(at_); }
  floats(const floats&) = delete;
  floats& operator=(const floats&) = delete;
  [[nodiscard]] float* get() const noexcept { return static_cast<float*>(at_); }
  [[nodiscard]] byte_range range(std::size_t first, std::size_t last) const noexcept {
    const auto base = reinterpret_cast<std::uint64_t>(at_);
    return {base + first * sizeof(float), base + last * sizeof(float)};
  }
  void count_up() const {
    std::vector<float> v(n_);
    std::iota(v.begin(), v.end(), 1.0f);
    cuda::check(cudaMemcpy(at_, v.data(), n_ * sizeof(float), cudaMemcpyHostToDevice), "test");
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> v(n_);
    cuda::check(cudaMemcpy(v.data(), at_, n_ * sizeof(float), cudaMemcpyDeviceToHost), "test");
    return v;
  }

private:
  void* at_ = nullptr;
  std::size_t n_;
};

/// Memory for records of the host.
struct host_recorder {
  explicit host_recorder(std::size_t capacity) : words(capacity) {
    sink.records = words.data();
    sink.capacity = capacity;
  }
  std::vector<std::uint64_t> words;
  trace_sink sink;
};

std::uint64_t address(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

TEST_CASE("the host can trace: reads and writes") {
  host_recorder to(100);
  std::vector<float> data{1, 2, 3, 4, 5, 6, 7, 8};
  const traced_ptr<float> p(data.data(), &to.sink);
  const traced_ptr<const float> in = p;
  p[1] = in[0] + in[2]; // reads 0, 2; writes 1
  p[4] += 1;            // reads and writes 4
  *(p + 6) = p[7];      // from reference to reference
  CHECK(data == std::vector<float>{1, 4, 3, 4, 6, 6, 8, 8});
  const operation_access seen = cuda::accesses_of(to.sink, "host");
  const auto f = [&](std::size_t first, std::size_t last) {
    return byte_range{address(&data[first]), address(data.data() + last)};
  };
  CHECK(seen.reads == access_set({f(0, 1), f(2, 3), f(4, 5), f(7, 8)}));
  CHECK(seen.writes == access_set({f(1, 2), f(4, 5), f(6, 7)}));
}

TEST_CASE("a pointer that is not traced, arithmetic and comparisons") {
  float data[4] = {};
  traced_ptr<float> p(data);
  p[0] = 3; // no sink: nothing is recorded
  CHECK(data[0] == 3);
  traced_ptr<float> q = p + 3;
  CHECK(q - p == 3);
  CHECK(p < q);
  CHECK(--q == p + 2);
  CHECK(q++ == p + 2);
  CHECK((q -= 3) == p);
  CHECK(&p[2] == p + 2);
  CHECK_FALSE(traced_ptr<float>{});
  CHECK(cuda::pointer_as<int>(p).get() == reinterpret_cast<int*>(data));
  static_assert(std::is_same_v<cuda::maybe_traced<float, false>, float*>);
  static_assert(!std::is_convertible_v<traced_ptr<const float>, traced_ptr<float>>);
}

TEST_CASE("objects larger than a record, and those accessed by ->") {
  struct large {
    char bytes[5000];
    int n;
  };
  host_recorder to(100);
  std::vector<large> data(2);
  const traced_ptr<large> p(data.data(), &to.sink);
  p->n = 3;
  const operation_access seen = cuda::accesses_of(to.sink, "large");
  CHECK(to.sink.made > 4);
  CHECK(seen.writes == access_set({{address(&data[0]), address(&data[1])}}));
  CHECK(seen.reads == seen.writes);
}

TEST_CASE("records that do not fit are an error") {
  host_recorder to(3);
  std::vector<float> data(8);
  const traced_ptr<float> p(data.data(), &to.sink);
  for (int i = 0; i < 5; ++i) p[i] = 1;
  CHECK_THROWS_WITH_AS(static_cast<void>(cuda::accesses_of(to.sink, "five")),
                       "trace of five: 5 records, expected at most 3", error);
}

template <class P>
__global__ void scale(P data, int n, float by) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) data[i] *= by;
}

template <class In, class Out>
__global__ void every_other(In in, Out out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (2 * i < n) out[2 * i] = in[i];
}

template <class P>
__global__ void count_odd(P data, P counter, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n && i % 2 == 1) atomicAdd(counter + 0, static_cast<float>(data[i]) + 1);
}

__global__ void nothing() {}

TEST_CASE("GPU: reads and writes of kernels, byte for byte") {
  GSCHED_NEEDS_GPU();
  constexpr int n = 1000;
  const floats a(n), b(2 * n);
  access_recorder recorder;
  const operation_access scaled = recorder.trace("scale", {.grid = 4, .block = 256},
                                                 scale<traced_ptr<float>>, a.get(), n, 2.0f);
  CHECK(scaled.name == "scale");
  CHECK(scaled.reads == access_set({a.range(0, n)}));
  CHECK(scaled.writes == scaled.reads);

  const operation_access spread =
      recorder.trace("every_other", {.grid = 4, .block = 256},
                     every_other<traced_ptr<const float>, traced_ptr<float>>, a.get(), b.get(), n);
  CHECK(spread.reads == access_set({a.range(0, n / 2)}));
  std::vector<byte_range> wanted;
  for (std::size_t i = 0; i < n; i += 2) wanted.push_back(b.range(i, i + 1));
  CHECK(spread.writes == access_set(std::move(wanted)));

  const operation_access counted = recorder.trace(
      "count_odd", {.grid = 4, .block = 256}, count_odd<traced_ptr<float>>, a.get(), b.get(), n);
  CHECK(counted.writes == access_set({b.range(0, 1)}));
  CHECK(counted.reads.bytes() == (n / 2 + 1) * sizeof(float));
  CHECK(b.values()[0] == n / 2);

  const operation_access none = recorder.trace("nothing", {}, nothing);
  CHECK(none.reads.empty());
  CHECK(none.writes.empty());
}

/// The accesses of one thread.
struct random_access {
  std::uint32_t offset;
  std::uint16_t bytes; ///< 1, 4, 16 or 3000
  std::uint16_t writes;
};

template <unsigned Bytes>
struct bytes_of {
  unsigned char b[Bytes];
};

template <class P>
__global__ void access_randomly(P memory, const random_access* what, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const auto touch = [&](auto p) {
    using object = std::remove_reference_t<decltype(*p.get())>;
    if (what[i].writes != 0)
      *p = object{};
    else {
      const object seen = *p;
      if (seen.b[0] == 77) *p = seen; // never true; keeps the read
    }
  };
  const P at = memory + what[i].offset;
  if (what[i].bytes == 1) touch(cuda::pointer_as<bytes_of<1>>(at));
  if (what[i].bytes == 4) touch(cuda::pointer_as<bytes_of<4>>(at));
  if (what[i].bytes == 16) touch(cuda::pointer_as<bytes_of<16>>(at));
  if (what[i].bytes == 3000) touch(cuda::pointer_as<bytes_of<3000>>(at));
}

TEST_CASE("GPU: random accesses of divergent threads of a warp") {
  GSCHED_NEEDS_GPU();
  constexpr std::size_t memory_size = 1 << 20;
  constexpr int n = 1 << 15;
  const floats memory(memory_size / sizeof(float));
  random_access* list = nullptr;
  cuda::check(cudaMalloc(&list, n * sizeof(random_access)), "test memory");
  std::mt19937_64 random(5);
  access_recorder recorder(1 << 20);
  const std::uint64_t base = memory.range(0, 0).first;
  for (int round = 0; round < 5; ++round) {
    std::vector<random_access> what(n);
    std::vector<byte_range> reads, writes;
    const bool in_rows =
        round > 0; // adjacent accesses that a warp merges into one record, and others
    static constexpr std::uint16_t sizes[] = {1, 4, 16, 3000};
    for (int i = 0; i < n; ++i) {
      random_access& r = what[static_cast<std::size_t>(i)];
      const random_access& before = what[static_cast<std::size_t>(std::max(i - 1, 0))];
      r.bytes = sizes[random() % (random() % 500 == 0 ? 4 : 3)];
      r.writes = static_cast<std::uint16_t>(random() % 2);
      r.offset = static_cast<std::uint32_t>(random() % (memory_size - 3000));
      if (in_rows && i > 0 && random() % 20 != 0) {
        r = before;
        if (random() % 50 != 0) r.offset += r.bytes;
        r.offset %= memory_size - 3000;
      }
      const std::uint64_t first = base + r.offset;
      (r.writes != 0 ? writes : reads).push_back({first, first + r.bytes});
    }
    cuda::check(cudaMemcpy(list, what.data(), n * sizeof(random_access), cudaMemcpyHostToDevice),
                "test memory");
    const operation_access seen = recorder.trace(
        "random", {.grid = n / 128, .block = 128}, access_randomly<traced_ptr<unsigned char>>,
        reinterpret_cast<unsigned char*>(memory.get()), list, n);
    CAPTURE(round);
    CHECK(seen.reads == access_set(std::move(reads)));
    CHECK(seen.writes == access_set(std::move(writes)));
  }
  cudaFree(list);
}

TEST_CASE("GPU: records that do not fit are an error, and the next trace is complete") {
  GSCHED_NEEDS_GPU();
  constexpr int n = 1 << 16;
  const floats a(n), b(2 * n);
  access_recorder recorder(1000);
  const auto go = [&](int elements) {
    return recorder.trace("every_other", {.grid = n / 256, .block = 256},
                          every_other<traced_ptr<const float>, traced_ptr<float>>, a.get(), b.get(),
                          elements);
  };
  try {
    static_cast<void>(go(n));
    CHECK(false);
  } catch (const error& e) {
    const std::string line = e.what();
    CAPTURE(line);
    CHECK(e.code() == errc::too_small);
    CHECK(line.starts_with("trace of every_other: "));
    CHECK(line.ends_with(" records, expected at most 1000"));
  }
  CHECK(go(1000).reads == access_set({a.range(0, 500)}));
  CHECK_THROWS_AS(access_recorder(0), error);
}

TEST_CASE("GPU: traced and plain kernels compute the same, and verdicts follow from the trace") {
  GSCHED_NEEDS_GPU();
  constexpr int n = 5000;
  const floats a(n), traced(2 * n), plain(2 * n);
  a.count_up();
  scale<float*><<<20, 256>>>(a.get(), n, 3.0f);
  every_other<const float*, float*><<<20, 256>>>(a.get(), plain.get(), 2 * n);
  scale<float*><<<40, 256>>>(plain.get(), 2 * n, 1.5f);
  cuda::check(cudaDeviceSynchronize(), "test");
  access_recorder recorder;
  access_trace t;
  t.operations.push_back(recorder.trace("every_other", {.grid = 20, .block = 256},
                                        every_other<traced_ptr<const float>, traced_ptr<float>>,
                                        a.get(), traced.get(), 2 * n));
  t.operations.push_back(recorder.trace("scale", {.grid = 40, .block = 256},
                                        scale<traced_ptr<float>>, traced.get(), 2 * n, 1.5f));
  CHECK(traced.values() == plain.values());
  CHECK(traced.values()[2] == 9); // 2 * 3 * 1.5
  const auto v = find_verdicts(t);
  CHECK(v[0].how == restart::alone);
  CHECK(v[1].how == restart::never); // half of its input comes from outside
  REQUIRE(v[1].why);
  CHECK(v[1].why->read_by == 1);
}

} // namespace
} // namespace gsched::testing
