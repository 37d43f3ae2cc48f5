// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/cuda/request_rings.hpp"

#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <utility>

namespace serve_partitions {

using namespace gsched;

namespace {

/// The distance from a buffer to the next one: more than it has bytes.
std::uint64_t stride_of(std::uint64_t bytes) {
  constexpr std::uint64_t alignment = 256;
  return (bytes / alignment + 1) * alignment;
}

} // namespace

void request_rings::freer::operator()(std::byte* p) const noexcept {
  static_cast<void>(cudaFreeHost(p));
}

request_rings::request_rings(std::span<const request_buffers> models) {
  for (const request_buffers& of : models) {
    ring& r = rings_.emplace_back();
    std::uint64_t bytes = 0; // of a request
    for (const auto* buffers : {&of.inputs, &of.outputs})
      for (const std::uint64_t b : *buffers) bytes += stride_of(b);
    if (bytes == 0) continue;
    void* p = nullptr;
    cuda::check(cudaHostAlloc(&p, bytes * requests_in_ring, cudaHostAllocPortable),
                "pinned memory for requests");
    r.memory.reset(static_cast<std::byte*>(p));
    std::byte* at = r.memory.get();
    for (std::size_t i = 0; i < requests_in_ring; ++i)
      for (const auto& [buffers, places] :
           {std::pair{&of.inputs, &r.inputs}, std::pair{&of.outputs, &r.outputs}})
        for (const std::uint64_t b : *buffers) {
          places->push_back(at);
          at += stride_of(b);
        }
  }
}

batch_data request_rings::next(std::size_t model, std::uint32_t batch) {
  if (model >= rings_.size()) return {};
  ring& r = rings_[model];
  from_.clear();
  to_.clear();
  const std::size_t inputs = r.inputs.size() / requests_in_ring;
  const std::size_t outputs = r.outputs.size() / requests_in_ring;
  for (std::uint32_t i = 0; i < batch; ++i) {
    for (std::size_t b = 0; b < inputs; ++b) from_.push_back(r.inputs[r.next * inputs + b]);
    for (std::size_t b = 0; b < outputs; ++b) to_.push_back(r.outputs[r.next * outputs + b]);
    r.next = (r.next + 1) % requests_in_ring;
  }
  return {from_, to_};
}

} // namespace serve_partitions
