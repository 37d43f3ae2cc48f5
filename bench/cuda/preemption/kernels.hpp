// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/preempt/preemptible_launch.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace preemption_bench {

namespace cuda = gsched::cuda;

/// Counters of a kernel that fills the GPU, in device memory except `running`.
struct books {
  std::uint32_t* running = nullptr; ///< in pinned memory: set to 1 when a block of the launch runs
  std::uint32_t* ended = nullptr;   ///< of each block, how often
  std::uint32_t* rerun = nullptr;   ///< blocks that began though they had ended
  std::uint64_t* saved = nullptr;   ///< of each block, the cycles that it has left
};

/// 512 threads a block, so that four fill an SM; each stays that many cycles, with a checkpoint
/// every `step` of them.
[[nodiscard]] cuda::preemptible_launch make_filling(const cuda::tenant& of, unsigned blocks,
                                                    std::uint64_t cycles, std::uint64_t step,
                                                    const books& b);

/// The same by hand: the flag is anywhere, and the last block to leave tells `gone`, in pinned
/// memory. With a null flag they stay.
struct left_times;
struct by_hand {
  const std::uint32_t* flag = nullptr;
  std::uint32_t* left = nullptr;
  std::uint32_t* gone = nullptr;
  left_times* times = nullptr; ///< where they are noted
};
[[nodiscard]] cudaGraphExec_t make_filling_by_hand(unsigned blocks, std::uint64_t cycles,
                                                   std::uint64_t step, const by_hand& h,
                                                   std::uint32_t* running);

/// When blocks leave, in ns of the GPU's clock.
struct left_times {
  unsigned long long first = ~0ull; ///< acts on the flag
  unsigned long long last = 0;      ///< the same of the last block
  unsigned long long listed = 0;    ///< the last one has counted itself
  unsigned long long behind = 0;    ///< the node behind the kernel starts
};
/// The same, told by a node behind the kernel; notes the times.
[[nodiscard]] cudaGraphExec_t make_filling_then_tell(unsigned blocks, std::uint64_t cycles,
                                                     std::uint64_t step, const by_hand& h,
                                                     std::uint32_t* running);

/// One thread that tells the GPU's time for that many cycles, in pinned memory, and then ~0.
[[nodiscard]] cudaGraphExec_t make_clock(std::uint64_t* time, std::uint64_t cycles);

/// A short kernel of which the last block to start tells so, in pinned memory.
[[nodiscard]] cudaGraphExec_t make_urgent(unsigned blocks, std::uint32_t* started,
                                          std::uint32_t* running);

/// What is compared for its cost.
enum class variant {
  plain,
  unfilled,           ///< preamble and checkpoints, of a kernel whose parameter nobody fills in
  preamble,           ///< no checkpoints
  preamble_resumable, ///< that also looks for what is left
  checkpoints,        ///< preamble and checkpoints, each warp for itself
  together,           ///< preamble and checkpoints for all threads of a block
  later               ///< the first checkpoint decides
};
inline constexpr variant variants[] = {
    variant::plain,       variant::unfilled, variant::preamble, variant::preamble_resumable,
    variant::checkpoints, variant::together, variant::later};
[[nodiscard]] const char* name_of(variant v) noexcept;

enum class loop {
  chain, ///< dependent operations, about 1 us between checkpoints
  gemm,  ///< tiles in shared memory; checkpoints in place of barriers
  copy   ///< 16 bytes a thread and pass, a checkpoint every 8
};

struct cost_kernel {
  loop what = loop::chain;
  unsigned blocks = 1;
  unsigned passes = 0; ///< of a chain
  float* data = nullptr;
  std::size_t elements = 0;
};
inline constexpr unsigned gemm_side = 1024;

/// Captures that many launches, one after the other.
[[nodiscard]] cudaGraphExec_t make_costing(const cost_kernel& k, variant v, unsigned launches,
                                           const cuda::preemption& filled, cudaStream_t stream);

/// Of which results are compared to the bit.
enum class kind { accumulating, multiplying, in_place };
inline constexpr kind kinds[] = {kind::accumulating, kind::multiplying, kind::in_place};
[[nodiscard]] const char* name_of(kind k) noexcept;

struct result_memory {
  float* in = nullptr;
  float* out = nullptr;
  float* partial = nullptr;
  std::uint32_t* passes = nullptr;
  std::uint32_t* ended = nullptr;
};
[[nodiscard]] std::size_t elements_of(kind k) noexcept; ///< of out
[[nodiscard]] unsigned blocks_of(kind k) noexcept;
[[nodiscard]] cuda::preemptible_launch make_result(kind k, const cuda::tenant& of,
                                                   const result_memory& m);

} // namespace preemption_bench
