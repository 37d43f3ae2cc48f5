// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/program.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace gsched::testing {

/// The memory of graphs under test: rows of device words, one row of pinned and one of pageable
/// memory. It is reset before each run and compared as a whole.
class arena {
public:
  static constexpr int row = 1 << 12; ///< words
  static constexpr int rows = 8;
  static constexpr std::size_t row_bytes = row * sizeof(std::uint32_t);

  arena() : pageable_(row) {
    cuda::check(cudaMalloc(&device_, rows * row_bytes), "test memory");
    cuda::check(cudaMallocHost(&pinned_, row_bytes), "test memory");
  }
  ~arena() {
    cudaFree(device_);
    cudaFreeHost(pinned_);
  }
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  [[nodiscard]] std::uint32_t* at(int r) const noexcept {
    return static_cast<std::uint32_t*>(device_) + static_cast<std::ptrdiff_t>(r) * row;
  }
  [[nodiscard]] std::uint32_t* pinned() const noexcept {
    return static_cast<std::uint32_t*>(pinned_);
  }
  [[nodiscard]] std::uint32_t* pageable() noexcept { return pageable_.data(); }

  void reset() {
    std::vector<std::uint32_t> first(static_cast<std::size_t>(row) * rows);
    for (std::size_t i = 0; i < first.size(); ++i)
      first[i] = static_cast<std::uint32_t>(i * 2654435761u + 17);
    cuda::check(cudaMemcpy(device_, first.data(), rows * row_bytes, cudaMemcpyHostToDevice),
                "test memory");
    std::memcpy(pinned_, first.data() + 5, row_bytes);
    std::memcpy(pageable_.data(), first.data() + 9, row_bytes);
  }
  [[nodiscard]] std::vector<std::uint32_t> snapshot() const {
    std::vector<std::uint32_t> all(static_cast<std::size_t>(row) * (rows + 2));
    cuda::check(cudaMemcpy(all.data(), device_, rows * row_bytes, cudaMemcpyDeviceToHost),
                "test memory");
    std::memcpy(all.data() + std::size_t{row} * rows, pinned_, row_bytes);
    std::memcpy(all.data() + std::size_t{row} * (rows + 1), pageable_.data(), row_bytes);
    return all;
  }

private:
  void* device_ = nullptr;
  void* pinned_ = nullptr;
  std::vector<std::uint32_t> pageable_;
};

/// Instantiates a graph, destroys it, and runs the executable to its end on a stream of its own.
class runner {
public:
  runner() { cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); }
  ~runner() { cudaStreamDestroy(stream_); }
  runner(const runner&) = delete;
  runner& operator=(const runner&) = delete;

  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  void run(cudaGraph_t g) {
    cudaGraphExec_t e = nullptr;
    cuda::check(cudaGraphInstantiate(&e, g, cudaGraphInstantiateFlagUseNodePriority), "graph");
    cuda::check(cudaGraphLaunch(e, stream_), "graph");
    cuda::check(cudaStreamSynchronize(stream_), "graph");
    cuda::check(cudaGraphExecDestroy(e), "graph");
  }
  void run_and_destroy(cudaGraph_t g) {
    run(g);
    cuda::check(cudaGraphDestroy(g), "graph");
  }

private:
  cudaStream_t stream_ = nullptr;
};

/// Runs a program in ranges that end at `ends`, rising; the last one is the program's size.
inline void run_cut(runner& on, const cuda::program& p, const std::vector<std::size_t>& ends) {
  std::size_t first = 0;
  for (const std::size_t last : ends) {
    on.run_and_destroy(p.make_range(first, last, {}));
    first = last;
  }
}

/// Options of a program that is not run to measure it.
[[nodiscard]] inline cuda::program_options named(std::string name) {
  cuda::program_options how;
  how.name = std::move(name);
  how.measure = false;
  return how;
}

/// The message, one line, of the gsched::error that f throws.
template <class F>
std::string line_of(F f, errc expected) {
  try {
    f();
  } catch (const error& e) {
    CHECK(e.code() == expected);
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
    return e.what();
  }
  FAIL_CHECK("no error");
  return {};
}

} // namespace gsched::testing
