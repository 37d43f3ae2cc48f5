// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace segment_ends {

/// Kernels by address, for graphs. Parameters in their order:
struct kernels {
  const void* spin;          ///< (std::uint64_t cycles): each block runs for that long
  const void* mark;          ///< (std::uint64_t* word): stores 1, relaxed
  const void* wait_and_mark; ///< the same behind griddepcontrol.wait, for a programmatic edge
};
[[nodiscard]] kernels all_kernels() noexcept;

} // namespace segment_ends
