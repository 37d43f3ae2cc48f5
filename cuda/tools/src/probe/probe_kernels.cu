// SPDX-License-Identifier: Apache-2.0
#include "probe/probe_kernels.hpp"

#include "hold_registers.cuh"

#include <gsched/cuda/error.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

namespace gsched::cuda {

namespace {

__device__ __forceinline__ std::uint64_t global_ns() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

__device__ __forceinline__ std::uint32_t sm_number() {
  std::uint32_t s;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(s));
  return s;
}

/// Calls work(round) until the probe ends. Each warp looks at the stop word after each round, so a
/// round lasts some microseconds.
template <class Work>
__device__ __forceinline__ void persist(const probe_arguments& a, Work&& work) {
  const std::uint64_t start = global_ns();
  const long long cycles = clock64();
  probe_record* const mine = a.records + blockIdx.x;
  if (threadIdx.x == 0) {
    mine->sm = sm_number();
    mine->start_ns = start;
    if (a.running != nullptr) {
      *static_cast<volatile std::uint32_t*>(a.running) = 1;
      __threadfence_system();
    }
  }
  std::uint64_t round = 0;
  std::uint32_t stopped = 0;
  while (a.rounds == 0 || round < a.rounds) {
    work(round);
    ++round;
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(stopped) : "l"(a.stop) : "memory");
    if (stopped != 0 || global_ns() - start > a.limit_ns) break;
  }
  if (threadIdx.x == 0) {
    mine->rounds = round;
    mine->end_ns = global_ns();
    mine->cycles = static_cast<std::uint64_t>(clock64() - cycles);
    mine->stopped = stopped != 0 ? 1 : 0;
  }
}

/// Operations of each chain in a round of arithmetic: some tens of microseconds, so that looking at
/// the stop word takes a few percent.
constexpr std::uint32_t steps = 16384;

/// As stand-ins do: code that never runs makes the compiler allocate the registers.
template <std::uint32_t Registers>
__global__ void __maxnreg__(Registers == 0 ? 32 : Registers) sleep_probe(probe_arguments a) {
  if constexpr (Registers > 0)
    if (a.never != nullptr) hold_registers(a.never, std::make_index_sequence<Registers - 8>{});
  persist(a, [](std::uint64_t) {
    for (int i = 0; i < 10; ++i) __nanosleep(10'000);
  });
}

constexpr std::uint32_t accesses = 8; ///< of each thread in a round, one after the other

/// Calls access(place) for the places of this thread's accesses in a round: adjacent threads of all
/// blocks have adjacent places, and successive rounds go through the whole array.
template <class Access>
__device__ __forceinline__ void each_place(std::uint64_t round, std::uint64_t count,
                                           Access&& access) {
  const std::uint64_t all = std::uint64_t{gridDim.x} * blockDim.x;
  std::uint64_t at =
      (round * accesses * all + std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) % count;
#pragma unroll 1
  for (std::uint32_t i = 0; i < accesses; ++i) {
    access(at);
    at += all;
    if (at >= count) at %= count;
  }
}

__global__ void __launch_bounds__(1024, 2) copy_probe(probe_arguments a) {
  const auto* const from = reinterpret_cast<const float4*>(a.from);
  auto* const to = reinterpret_cast<float4*>(a.to);
  persist(a, [&](std::uint64_t round) {
    each_place(round, a.bytes / sizeof(float4),
               [&](std::uint64_t at) { __stcg(to + at, __ldcg(from + at)); });
  });
}

__global__ void __launch_bounds__(1024, 2) read_probe(probe_arguments a) {
  const auto* const from = reinterpret_cast<const float4*>(a.from);
  persist(a, [&](std::uint64_t round) {
    float sum = 0;
    each_place(round, a.bytes / sizeof(float4), [&](std::uint64_t at) {
      const float4 value = __ldcg(from + at);
      sum += value.x + value.w;
    });
    if (sum == 0.123F) a.records[blockIdx.x].rounds = round; // keeps the loads
  });
}

__global__ void __launch_bounds__(1024, 2) write_probe(probe_arguments a) {
  auto* const to = reinterpret_cast<float4*>(a.to);
  persist(a, [&](std::uint64_t round) {
    const auto x = static_cast<float>(round);
    each_place(round, a.bytes / sizeof(float4),
               [&](std::uint64_t at) { __stcg(to + at, make_float4(x, x, x, x)); });
  });
}

__global__ void __launch_bounds__(1024, 2) atomics_probe(probe_arguments a) {
  auto* const to = reinterpret_cast<std::uint32_t*>(a.to);
  persist(a, [&](std::uint64_t round) {
    each_place(round, a.bytes / sizeof(std::uint32_t),
               [&](std::uint64_t at) { atomicAdd(to + at, 1U); });
  });
}

constexpr std::uint64_t chain_step = 128; ///< bytes: one line

__global__ void __launch_bounds__(1024, 2) chase_probe(probe_arguments a) {
  const std::uint64_t all = a.bytes / chain_step;
  const std::uint64_t me = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::uint64_t at = me * 7919 % all;
  persist(a, [&](std::uint64_t) {
    for (int i = 0; i < 32; ++i)
      at = __ldcg(reinterpret_cast<const unsigned long long*>(a.from + at * chain_step));
    if (at == ~std::uint64_t{0}) a.records[blockIdx.x].rounds = at; // keeps the loads
  });
}

__global__ void __launch_bounds__(1024, 2) l1_probe(probe_arguments a) {
  const std::uint32_t count = a.level * 1024 / sizeof(float4);
  const auto* const from =
      reinterpret_cast<const float4*>(a.from) + std::uint64_t{blockIdx.x} * count;
  std::uint32_t at = threadIdx.x % count;
  persist(a, [&](std::uint64_t round) {
    float sum = 0;
#pragma unroll 4
    for (std::uint32_t i = 0; i < 256; ++i) {
      float4 value;
      asm volatile("ld.global.ca.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                   : "l"(from + at));
      sum += value.x + value.w;
      at += blockDim.x;
      if (at >= count) at %= count;
    }
    if (sum == 0.123F) a.records[blockIdx.x].rounds = round;
  });
}

/// Loads and stores words of an array of 4 KiB; the lanes of a warp are `level` words apart, which
/// makes conflicts of so many ways.
__global__ void shared_probe(probe_arguments a) {
  extern __shared__ std::uint32_t words[];
  constexpr std::uint32_t count = probe_shared_bytes / sizeof(std::uint32_t);
  for (std::uint32_t i = threadIdx.x; i < count; i += blockDim.x) words[i] = i;
  __syncthreads();
  const std::uint32_t lane = threadIdx.x % 32;
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(words));
  const std::uint32_t from = base + 4 * (lane * a.level % count);
  const std::uint32_t to = base + 4 * ((lane * a.level + 1) % count);
  persist(a, [&](std::uint64_t) {
#pragma unroll 16
    for (int i = 0; i < 1024; ++i) {
      std::uint32_t v;
      asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
      asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
    }
  });
}

/// Ilp independent chains of one instruction.
#define GSCHED_ARITHMETIC_PROBE(NAME, TYPE, START, ASSEMBLY, CONSTRAINT)                           \
  template <int Ilp>                                                                               \
  __global__ void __launch_bounds__(1024, 2) NAME(probe_arguments a) {                             \
    TYPE x[Ilp];                                                                                   \
    for (int i = 0; i < Ilp; ++i) x[i] = START;                                                    \
    const TYPE y = START;                                                                          \
    persist(a, [&](std::uint64_t) {                                                                \
      _Pragma("unroll 32") for (std::uint32_t s = 0; s < steps; ++s) {                             \
        _Pragma("unroll") for (int i = 0; i < Ilp;                                                 \
                               ++i) asm volatile(ASSEMBLY : "+" CONSTRAINT(x[i]) : CONSTRAINT(y)); \
      }                                                                                            \
    });                                                                                            \
    TYPE sum = x[0];                                                                               \
    for (int i = 1; i < Ilp; ++i) sum += x[i];                                                     \
    if (a.never != nullptr) *reinterpret_cast<TYPE*>(a.never) = sum;                               \
  }

GSCHED_ARITHMETIC_PROBE(fp32_probe, float, 1.0F + static_cast<float>(threadIdx.x) * 1e-7F,
                        "mul.rn.f32 %0, %0, %1;", "f")
GSCHED_ARITHMETIC_PROBE(fp64_probe, double, 1.0 + static_cast<double>(threadIdx.x) * 1e-9,
                        "mul.rn.f64 %0, %0, %1;", "d")
GSCHED_ARITHMETIC_PROBE(fp16_probe, std::uint32_t, 0x3c003c00U, "mul.rn.f16x2 %0, %0, %1;", "r")
GSCHED_ARITHMETIC_PROBE(integer_probe, std::uint32_t, threadIdx.x + 3U,
                        "lop3.b32 %0, %0, %1, %1, 0x1e; \n\t shf.l.wrap.b32 %0, %0, %0, 5;", "r")
GSCHED_ARITHMETIC_PROBE(sfu_probe, float, 0.5F + static_cast<float>(threadIdx.x) * 1e-4F,
                        "ex2.approx.ftz.f32 %0, %0; // %1", "f")
#undef GSCHED_ARITHMETIC_PROBE

template <int Ilp>
__global__ void __launch_bounds__(1024, 1) tensor_probe(probe_arguments a) {
  float d[Ilp][4] = {};
  const std::uint32_t p = 0x3c003c00U + threadIdx.x;
  persist(a, [&](std::uint64_t) {
#pragma unroll 8
    for (std::uint32_t s = 0; s < steps / 4; ++s)
#pragma unroll
      for (int i = 0; i < Ilp; ++i)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                     "{%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"
                     : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
                     : "r"(p));
  });
  float sum = 0;
  for (int i = 0; i < Ilp; ++i) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
  if (a.never != nullptr) *reinterpret_cast<float*>(a.never) = sum;
}

/// 16,384 instructions of 16 bytes: more than the instruction caches hold.
__global__ void instructions_probe(probe_arguments a) {
  float x[4];
  for (int i = 0; i < 4; ++i) x[i] = 1.0F + static_cast<float>(threadIdx.x + i) * 1e-7F;
  const float y = x[3];
  persist(a, [&](std::uint64_t) {
#pragma unroll
    for (int s = 0; s < 4096; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i) asm volatile("mul.rn.f32 %0, %0, %1;" : "+f"(x[i]) : "f"(y));
  });
  if (a.never != nullptr) *reinterpret_cast<float*>(a.never) = x[0] + x[1] + x[2] + x[3];
}

/// A multiplicative step that is odd visits all lines of a power of two once in a cycle.
__global__ void chain_writer(char* at, std::uint64_t count) {
  const std::uint64_t all = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += all)
    *reinterpret_cast<std::uint64_t*>(at + i * chain_step) =
        (i * 1'664'525 + 1'013'904'223) % count;
}

template <class Kernel>
const void* handle(Kernel* k) noexcept {
  return reinterpret_cast<const void*>(k);
}

#define GSCHED_BY_ILP(NAME)                                                                        \
  (level <= 1   ? handle(&NAME<1>)                                                                 \
   : level == 2 ? handle(&NAME<2>)                                                                 \
   : level == 3 ? handle(&NAME<3>)                                                                 \
                : handle(&NAME<4>))

} // namespace

const void* probe_kernel(probe_kind kind, std::uint32_t level, std::uint32_t registers) noexcept {
  switch (kind) {
  case probe_kind::sleep:
    return registers <= 16    ? handle(&sleep_probe<0>) // it needs 14; none can be made to have 16
           : registers <= 24  ? handle(&sleep_probe<24>)
           : registers <= 32  ? handle(&sleep_probe<32>)
           : registers <= 64  ? handle(&sleep_probe<64>)
           : registers <= 96  ? handle(&sleep_probe<96>)
           : registers <= 128 ? handle(&sleep_probe<128>)
           : registers <= 192 ? handle(&sleep_probe<192>)
                              : handle(&sleep_probe<255>);
  case probe_kind::copy: return handle(&copy_probe);
  case probe_kind::read: return handle(&read_probe);
  case probe_kind::write: return handle(&write_probe);
  case probe_kind::atomics: return handle(&atomics_probe);
  case probe_kind::chase: return handle(&chase_probe);
  case probe_kind::l1: return handle(&l1_probe);
  case probe_kind::shared: return handle(&shared_probe);
  case probe_kind::fp32: return GSCHED_BY_ILP(fp32_probe);
  case probe_kind::fp64: return GSCHED_BY_ILP(fp64_probe);
  case probe_kind::fp16: return GSCHED_BY_ILP(fp16_probe);
  case probe_kind::integer: return GSCHED_BY_ILP(integer_probe);
  case probe_kind::sfu: return GSCHED_BY_ILP(sfu_probe);
  case probe_kind::tensor: return GSCHED_BY_ILP(tensor_probe);
  case probe_kind::instructions: return handle(&instructions_probe);
  case probe_kind::upload:
  case probe_kind::download: break; // no kernel
  }
  return nullptr;
}
#undef GSCHED_BY_ILP

void write_chain(char* at, std::uint64_t bytes) {
  chain_writer<<<1024, 256>>>(at, bytes / chain_step);
  check(cudaDeviceSynchronize(), "chain of the probe");
}

} // namespace gsched::cuda
