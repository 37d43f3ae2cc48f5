// SPDX-License-Identifier: Apache-2.0
#include "cuda/device/device_yield_kernels.hpp"
#include "cuda/graph/program_kernels.cuh"

#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/preempt/preempt.cuh>

#include <utility>

namespace gsched::testing {

namespace {

constexpr int n = arena::row;
constexpr int threads = 128;
constexpr int blocks = n / threads;

/// Reads all of its input a few times.
__global__ void slow_step(const word* in, word* out, int size, word salt) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= size) return;
  word x = in[i];
  for (int k = 0; k < 40; ++k) x = mixed(x, in[(i * 7 + k * 61) % size], salt);
  out[i] = x;
}

/// One word of output for each block; the block may restart until it is written.
__global__ void preemptible_step(gsched::cuda::preemption p, const word* in, word* out, int size,
                                 word salt) {
  GSCHED_PREEMPTIBLE(p);
  const int i = static_cast<int>(gsched_block.x);
  word x = in[i % size];
  for (int k = 0; k < 60; ++k) {
    x = mixed(x, in[(i * 7 + k * 61) % size], salt);
    GSCHED_CHECKPOINT();
  }
  if (threadIdx.x == 0) out[i] = x;
}

/// Half of each warp reaches the checkpoint, and one thread of each half writes.
__global__ void divergent_step(gsched::cuda::preemption p, const word* in, word* out, word* out_too,
                               int size, word salt) {
  GSCHED_PREEMPTIBLE(p);
  const int i = static_cast<int>(gsched_block.x);
  word x = in[i % size];
  for (int k = 0; k < 60; ++k) {
    x = mixed(x, in[(i * 7 + k * 61) % size], salt);
    if (threadIdx.x % 32 < 16) GSCHED_CHECKPOINT();
  }
  if (threadIdx.x == 0) out[i] = x;
  if (threadIdx.x == blockDim.x - 1) out_too[i] = x;
}

/// In place, so that a block that runs twice is detected.
__global__ void preemptible_in_place(gsched::cuda::preemption p, word* in_out, word salt) {
  GSCHED_PREEMPTIBLE(p);
  const unsigned i = gsched_block.x;
  if (threadIdx.x != 0) return;
  word x = in_out[i];
  for (int k = 0; k < 60; ++k) x = mixed(x, x >> 3, salt);
  in_out[i] = x;
}

cuda::program_options measured(std::string name) {
  cuda::program_options o;
  o.name = std::move(name);
  return o;
}

} // namespace

cuda::program make_chain(std::string name, const arena& on) {
  return cuda::capture(measured(std::move(name)), [&](cudaStream_t s) {
    for (word i = 0; i < 30; ++i) {
      slow_step<<<blocks, threads, 0, s>>>(on.at(static_cast<int>(i % 3)),
                                           on.at(static_cast<int>((i + 1) % 3)), n, i);
      if (i == 12)
        cuda::check(
            cudaMemcpyAsync(on.at(3), on.at(1), arena::row_bytes, cudaMemcpyDeviceToDevice, s),
            "copy");
      if (i == 20) cuda::check(cudaMemsetAsync(on.at(4), 0x5a, 1000, s), "set");
    }
    join<<<blocks, threads, 0, s>>>(on.at(3), on.at(4), on.at(0), n);
  });
}

cuda::program make_forks(std::string name, const arena& on) {
  cudaStream_t side[2] = {};
  cudaEvent_t event[3] = {};
  for (cudaStream_t& s : side)
    cuda::check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
  for (cudaEvent_t& e : event)
    cuda::check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "event");
  cuda::program made = cuda::capture(measured(std::move(name)), [&](cudaStream_t s) {
    for (word round = 0; round < 3; ++round) {
      slow_step<<<blocks, threads, 0, s>>>(on.at(0), on.at(1), n, round);
      cuda::check(cudaEventRecord(event[0], s), "event");
      for (cudaStream_t other : side) cuda::check(cudaStreamWaitEvent(other, event[0]), "event");
      for (word i = 0; i < 4; ++i) {
        const bool odd = i % 2 != 0;
        slow_step<<<blocks, threads, 0, side[0]>>>(on.at(odd ? 2 : 1), on.at(odd ? 3 : 2), n, i);
        slow_step<<<blocks, threads, 0, side[1]>>>(on.at(odd ? 4 : 1), on.at(odd ? 5 : 4), n, i);
        if (odd) slow_step<<<blocks, threads, 0, s>>>(on.at(1), on.at(6), n, i);
      }
      for (int k = 0; k < 2; ++k) {
        cuda::check(cudaEventRecord(event[1 + k], side[k]), "event");
        cuda::check(cudaStreamWaitEvent(s, event[1 + k]), "event");
      }
      join<<<blocks, threads, 0, s>>>(on.at(3), on.at(5), on.at(6), n);
      join<<<blocks, threads, 0, s>>>(on.at(6), on.at(1), on.at(0), n);
    }
  });
  for (cudaStream_t s : side) cudaStreamDestroy(s);
  for (cudaEvent_t e : event) cudaEventDestroy(e);
  return made;
}

cuda::program make_preemptible_steps(std::string name, const arena& on) {
  constexpr int grid = arena::row; // one word for each block
  return cuda::capture(measured(std::move(name)), [&](cudaStream_t s) {
    for (word i = 0; i < 12; ++i) {
      preemptible_step<<<grid, threads, 0, s>>>(cuda::preemption::at_checkpoints(),
                                                on.at(static_cast<int>(i % 3)),
                                                on.at(static_cast<int>((i + 1) % 3)), n, i);
      preemptible_in_place<<<grid, threads, 0, s>>>(cuda::preemption::between_blocks(),
                                                    on.at(static_cast<int>((i + 1) % 3)), i);
    }
  });
}

cuda::program make_mixed(std::string name, const arena& on) {
  return cuda::capture(measured(std::move(name)), [&](cudaStream_t s) {
    for (word i = 0; i < 12; ++i) {
      const auto row = [&](word k) { return on.at(static_cast<int>((i + k) % 4)); };
      slow_step<<<blocks, threads, 0, s>>>(row(0), row(1), n, i);
      preemptible_step<<<n, threads, 0, s>>>(cuda::preemption::at_checkpoints(), row(1), row(2), n,
                                             i);
      if (i % 3 == 0)
        preemptible_in_place<<<n, threads, 0, s>>>(cuda::preemption::between_blocks(), row(2), i);
    }
  });
}

cuda::program make_divergent(std::string name, const arena& on) {
  return cuda::capture(measured(std::move(name)), [&](cudaStream_t s) {
    for (word i = 0; i < 12; ++i)
      divergent_step<<<n, threads, 0, s>>>(
          cuda::preemption::at_checkpoints(), on.at(static_cast<int>(i % 3)),
          on.at(static_cast<int>((i + 1) % 3)), on.at(3 + static_cast<int>(i % 3)), n, i);
  });
}

cuda::program make_two_steps(std::string name, const arena& on) {
  return cuda::capture(named(std::move(name)), [&](cudaStream_t s) {
    step<<<blocks, threads, 0, s>>>(on.at(0), on.at(1), n, 1);
    step<<<blocks, threads, 0, s>>>(on.at(1), on.at(2), n, 2);
  });
}

std::vector<word> two_steps(const std::vector<word>& row) {
  std::vector<word> in = row;
  std::vector<word> out = row;
  for (const word salt : {1u, 2u}) {
    for (int i = 0; i < n; ++i) out[i] = mixed(in[i], in[(i * 7 + 3) % n], salt);
    std::swap(in, out);
  }
  return in;
}

} // namespace gsched::testing
