// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gsched {

/// Three dimensions of a grid or a block, as in a CUDA launch.
struct extent {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;

  [[nodiscard]] constexpr std::uint64_t volume() const noexcept { return std::uint64_t{x} * y * z; }
  bool operator==(const extent&) const noexcept = default;
};

/// The launch configuration of a kernel: everything that determines how many of its blocks fit on
/// an SM.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 4.1.
struct launch_shape {
  extent grid{};
  extent block{};
  std::uint32_t registers_per_thread = 0;
  std::uint32_t static_shared_bytes = 0;  ///< bytes a block
  std::uint32_t dynamic_shared_bytes = 0; ///< bytes a block
  std::uint32_t cluster_blocks = 1;       ///< blocks a cluster; 1: no clusters

  [[nodiscard]] constexpr std::uint64_t blocks() const noexcept { return grid.volume(); }
  [[nodiscard]] constexpr std::uint64_t threads_per_block() const noexcept {
    return block.volume();
  }
  bool operator==(const launch_shape&) const noexcept = default;
};

} // namespace gsched
