// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/inline_vector.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace gsched {

/// The resources of one SM of a compute capability, and their allocation units.
///
/// Units    *_bytes and shared_* are bytes; the rest are counts.
struct architecture_limits {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint32_t max_threads = 0; ///< resident on an SM
  std::uint32_t max_warps = 0;
  std::uint32_t max_blocks = 0;
  std::uint32_t max_threads_per_block = 1024;
  std::uint32_t registers = 0;
  std::uint32_t register_unit = 0; ///< registers of a warp are allocated in multiples of this
  std::uint32_t max_registers_per_thread = 255;
  std::uint32_t max_registers_per_block = 0;
  std::uint32_t warp_unit = 0;    ///< partitions of an SM, each with registers of its own
  std::uint32_t shared_bytes = 0; ///< the largest split for shared memory
  std::uint32_t shared_unit = 0;
  std::uint32_t reserved_shared_bytes = 0;          ///< the system's share of each block
  std::uint32_t max_shared_per_block = 0;           ///< opt-in limit, static and dynamic together
  std::uint32_t max_static_shared_per_block = 0;    ///< limit for a declaration in a kernel
  std::uint32_t max_cluster_blocks = 0;             ///< portable cluster size; 0: no clusters
  std::uint32_t max_opt_in_cluster_blocks = 0;      ///< with the non-portable attribute
  inline_vector<std::uint32_t, 10> shared_splits{}; ///< possible sizes of shared memory, rising
};

namespace detail {

inline constexpr std::uint32_t kib = 1024;

/// The differences between compute capabilities from 7.0 on.
struct architecture_row {
  std::uint32_t major, minor;
  std::uint32_t threads, blocks; ///< resident on an SM
  std::uint32_t shared_kib;      ///< the largest split
  std::uint32_t cluster;         ///< with the non-portable attribute; 0: no clusters
};

// Source: CUDA C++ Programming Guide, "Technical specifications per compute capability"; the
// allocation units and splits as in the occupancy calculator of the CUDA toolkit. 10.1 and 11.0 are
// one chip, named differently before and after CUDA 13.
inline constexpr std::array<architecture_row, 15> architecture_rows{{
    {7, 0, 2048, 32, 96, 0},
    {7, 2, 2048, 32, 96, 0},
    {7, 5, 1024, 16, 64, 0},
    {8, 0, 2048, 32, 164, 0},
    {8, 6, 1536, 16, 100, 0},
    {8, 7, 1536, 16, 164, 0},
    {8, 8, 1536, 16, 100, 0},
    {8, 9, 1536, 24, 100, 0},
    {9, 0, 2048, 32, 228, 16},
    {10, 0, 2048, 32, 228, 16},
    {10, 1, 1536, 24, 228, 16},
    {10, 3, 2048, 32, 228, 16},
    {11, 0, 1536, 24, 228, 16},
    {12, 0, 1536, 24, 100, 8},
    {12, 1, 1536, 24, 100, 8},
}};

[[nodiscard]] constexpr architecture_limits limits_of(const architecture_row& row) noexcept {
  architecture_limits l;
  l.major = row.major;
  l.minor = row.minor;
  l.max_threads = row.threads;
  l.max_warps = row.threads / 32;
  l.max_blocks = row.blocks;
  l.registers = 64 * kib;
  l.register_unit = 256;
  l.max_registers_per_block = 64 * kib;
  l.warp_unit = 4;
  l.shared_bytes = row.shared_kib * kib;
  l.shared_unit = row.major == 7 ? 256 : 128;
  // from Ampere on, the driver takes 1 KiB a block
  l.reserved_shared_bytes = row.major == 7 ? 0 : kib;
  l.max_shared_per_block = l.shared_bytes - l.reserved_shared_bytes;
  l.max_static_shared_per_block = 48 * kib;
  l.max_cluster_blocks = row.cluster == 0 ? 0 : 8;
  l.max_opt_in_cluster_blocks = row.cluster;

  constexpr std::array<std::uint32_t, 11> steps{0, 8, 16, 32, 64, 96, 100, 132, 164, 196, 228};
  const bool turing = row.major == 7 && row.minor == 5; // only two splits
  for (const std::uint32_t step : steps) {
    if (turing ? step == 32 || step == 64
               : step <= row.shared_kib && (step == 96) <= (row.major == 7))
      l.shared_splits.push_back(step * kib);
  }
  return l;
}

} // namespace detail

/// The limits of one compute capability; none if the table lacks it.
[[nodiscard]] inline std::optional<architecture_limits> known_limits(std::uint32_t major,
                                                                     std::uint32_t minor) noexcept {
  for (const detail::architecture_row& row : detail::architecture_rows)
    if (row.major == major && row.minor == minor) return detail::limits_of(row);
  return std::nullopt;
}

/// The limits of one compute capability.
///
/// Errors   unknown_name: the table lacks it; a guess would give a wrong occupancy. For a GPU of
///          such a capability the driver reports the limits (cuda::find_gpu).
[[nodiscard]] inline architecture_limits limits_for(std::uint32_t major, std::uint32_t minor) {
  if (const std::optional<architecture_limits> known = known_limits(major, minor)) return *known;
  throw error(errc::unknown_name, "compute capability " + std::to_string(major) + "." +
                                      std::to_string(minor) +
                                      ": not known, expected one from 7.0 to 12.1");
}

} // namespace gsched
