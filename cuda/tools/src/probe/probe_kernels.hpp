// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda_tools/probe.hpp>

#include <array>
#include <cstdint>

namespace gsched::cuda {

/// What a block of a probe records.
struct probe_record {
  std::uint64_t rounds = 0;
  std::uint64_t start_ns = 0; ///< on the GPU's global timer
  std::uint64_t end_ns = 0;
  std::uint64_t cycles = 0; ///< of its SM's clock, from start to end
  std::uint32_t sm = 0;
  std::uint32_t stopped = 0; ///< 1: by the stop word
};

/// The argument of every probe kernel.
struct probe_arguments {
  const std::uint32_t* stop = nullptr; ///< in device memory: not 0 ends the probe
  std::uint32_t* running = nullptr;    ///< in host memory: set when the first block runs
  probe_record* records = nullptr;     ///< one for each block
  std::uint64_t rounds = 0;            ///< ends after so many; 0: no limit
  std::uint64_t limit_ns = 0;          ///< ends after so much time
  char* from = nullptr;                ///< memory that it reads, of `bytes`
  char* to = nullptr;                  ///< memory that it writes, of `bytes`
  std::uint64_t bytes = 0;
  std::uint32_t level = 1;
  std::uint32_t* never = nullptr; ///< always null; code behind it keeps registers in use
};

/// Registers of a thread that `sleep` can have, as they are allocated: in eights.
inline constexpr std::array<std::uint32_t, 8> sleep_registers{16, 24, 32, 64, 96, 128, 192, 255};

/// The kernel of a kind at a level, of `sleep` with one of sleep_registers; 0: as compiled.
[[nodiscard]] const void* probe_kernel(probe_kind kind, std::uint32_t level,
                                       std::uint32_t registers) noexcept;

/// Shared memory of a block that the kind itself needs.
inline constexpr std::uint32_t probe_shared_bytes = 4096;

/// Fills memory with a cycle of indices that visits each line once, for probe_kind::chase.
void write_chain(char* at, std::uint64_t bytes);

} // namespace gsched::cuda
