// SPDX-License-Identifier: Apache-2.0
#include "common/cuda/built_in_graphs.hpp"

#include "common/cuda/built_in_kernels.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/io/profile_json.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace common {

namespace {

using gsched::cuda::check;

template <class T, bool Pinned>
class memory {
public:
  explicit memory(std::size_t n) : bytes_(n * sizeof(T)) {
    check(Pinned ? cudaMallocHost(&at_, bytes_) : cudaMalloc(&at_, bytes_), "memory of the graph");
    if (Pinned)
      std::memset(at_, 0, bytes_);
    else
      check(cudaMemset(at_, 0, bytes_), "memory of the graph");
  }
  ~memory() { static_cast<void>(Pinned ? cudaFreeHost(at_) : cudaFree(at_)); }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;

  [[nodiscard]] T* get() const noexcept { return static_cast<T*>(at_); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
  void* at_ = nullptr;
  std::size_t bytes_;
};
template <class T>
using device_memory = memory<T, false>;
template <class T>
using pinned_memory = memory<T, true>;

class saxpy_chain final : public held_graph {
public:
  explicit saxpy_chain(std::size_t n) : x_(n), y_(n), host_(n) {
    constexpr int kernels = 16;
    const cudaStream_t s = recording_.stream();
    check(cudaMemcpyAsync(x_.get(), host_.get(), x_.bytes(), cudaMemcpyHostToDevice, s), "copy in");
    check(cudaMemsetAsync(y_.get(), 0, y_.bytes(), s), "set");
    for (int i = 0; i < kernels; ++i) saxpy(0.5f, x_.get(), y_.get(), n, s);
    check(cudaMemcpyAsync(host_.get(), y_.get(), y_.bytes(), cudaMemcpyDeviceToHost, s),
          "copy out");
    graph_ = recording_.end();
  }
  [[nodiscard]] CUgraph get() const noexcept override { return graph_; }

private:
  device_memory<float> x_, y_;
  pinned_memory<float> host_;
  gsched::cuda::stream_capture recording_{
      "saxpy"}; // after the memory: a capture forbids allocation
  CUgraph graph_ = nullptr;
};

class sort_and_reduce final : public held_graph {
public:
  explicit sort_and_reduce(std::size_t n)
      : in_(n), sorted_(n), sum_(1), scratch_(scratch_of_sort_and_sum(n)) {
    sort_and_sum(scratch_.get(), scratch_.bytes(), in_.get(), sorted_.get(), sum_.get(), n,
                 recording_.stream());
    graph_ = recording_.end();
  }
  [[nodiscard]] CUgraph get() const noexcept override { return graph_; }

private:
  device_memory<std::uint32_t> in_, sorted_, sum_;
  device_memory<std::byte> scratch_;
  gsched::cuda::stream_capture recording_{"sort"};
  CUgraph graph_ = nullptr;
};

class tick_chain final : public held_graph {
public:
  tick_chain() {
    constexpr int kernels = 300;
    constexpr unsigned cycles = 4000; // 2 us
    for (int i = 0; i < kernels; ++i) tick(cycles, recording_.stream());
    graph_ = recording_.end();
  }
  [[nodiscard]] CUgraph get() const noexcept override { return graph_; }

private:
  gsched::cuda::stream_capture recording_{"ticks"};
  CUgraph graph_ = nullptr;
};

class replayed final : public held_graph {
public:
  explicit replayed(const std::filesystem::path& file)
      : program_(gsched::cuda::make_stand_in(gsched::load_profile(file))),
        graph_(program_.make_range(0, program_.host().size(), {})) {}
  ~replayed() override { static_cast<void>(cudaGraphDestroy(graph_)); }
  replayed(const replayed&) = delete;
  replayed& operator=(const replayed&) = delete;
  [[nodiscard]] CUgraph get() const noexcept override { return graph_; }

private:
  gsched::cuda::program program_;
  CUgraph graph_;
};

} // namespace

const std::vector<std::string>& built_in_names() {
  static const std::vector<std::string> names{"saxpy", "sort", "ticks"};
  return names;
}

std::unique_ptr<held_graph> built_in_graph(const std::string& name, std::size_t elements) {
  if (name == "saxpy") return std::make_unique<saxpy_chain>(elements);
  if (name == "sort") return std::make_unique<sort_and_reduce>(elements);
  if (name == "ticks") return std::make_unique<tick_chain>();
  throw gsched::error(gsched::errc::unknown_name,
                      "--graph: unknown graph '" + name + "', expected saxpy, sort or ticks");
}

std::unique_ptr<held_graph> stand_in_graph(const std::filesystem::path& file) {
  return std::make_unique<replayed>(file);
}

} // namespace common
