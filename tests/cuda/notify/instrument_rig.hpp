// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/needs_gpu.hpp"
#include "instrument_kernels.hpp"
#include "instrument_ledger.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/notify/notification_ring.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::testing {

/// A ring, a stream, memory for the kernels' output, and a ledger of the ring.
struct rig {
  explicit rig(std::size_t slots)
      : gpu(cuda::find_gpu(0)), ring(0, slots), book(gpu.sms.count()), stream(make_stream()) {}
  ~rig() {
    for (const cudaStream_t s : streams) cudaStreamDestroy(s);
    cudaFree(out);
  }
  rig(const rig&) = delete;
  rig& operator=(const rig&) = delete;

  cudaStream_t make_stream() {
    cudaStream_t s = nullptr;
    cuda::check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
    streams.push_back(s);
    return s;
  }

  std::uint32_t* room_for(std::uint64_t threads) {
    if (threads > room) {
      cudaFree(out);
      void* p = nullptr;
      cuda::check(cudaMalloc(&p, threads * sizeof(std::uint32_t)), "memory");
      out = static_cast<std::uint32_t*>(p);
      room = threads;
    }
    return out;
  }

  /// group = 0: automatic.
  cuda::launch_slot slot_for(const shape& s, std::uint32_t group) {
    const cuda::launch_slot at = ring.take_slot(group, s.blocks());
    book.expect(at, s.blocks(), group == 0 ? cuda::automatic_group(s.blocks()) : group);
    return at;
  }

  void done(const char* what) {
    for (const cudaStream_t s : streams)
      cuda::check(drain_until_done(s, ring.reader(), book, what), what);
    while (ring.reader().drain(book) > 0) { // words of a stream that ended during another wait
    }
  }

  /// The kernel's output, instrumented or not.
  std::vector<std::uint32_t> result(shape s, const cuda::report& to, const char* what) {
    std::uint32_t* const where = room_for(s.threads());
    cuda::check(cudaMemsetAsync(where, 0xff, s.threads() * sizeof(std::uint32_t), stream), what);
    cuda::check(launch(s, stream, to, where), what);
    done(what);
    std::vector<std::uint32_t> all(s.threads());
    cuda::check(
        cudaMemcpy(all.data(), where, all.size() * sizeof(std::uint32_t), cudaMemcpyDeviceToHost),
        what);
    return all;
  }

  cuda::gpu gpu;
  cuda::notification_ring ring;
  ledger book;
  std::vector<cudaStream_t> streams;
  cudaStream_t stream;
  std::uint32_t* out = nullptr;
  std::uint64_t room = 0;
};

} // namespace gsched::testing
