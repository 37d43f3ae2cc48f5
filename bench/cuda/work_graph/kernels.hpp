// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mixing.hpp"
#include "spec.hpp"

#include <cstdint>

namespace work_graph {

/// The parameter of kernels, and of host nodes.
struct node_work {
  std::uint32_t* own = nullptr;
  std::uint32_t* between = nullptr; ///< of a cooperative kernel: a word for each one that counts
  std::uint64_t cycles = 0;         ///< time of each block
  std::uint32_t words = 0;
  std::uint32_t salt = 0;
  std::uint32_t shared_words = 0; ///< of dynamic shared memory
  std::uint32_t count = 0;        ///< of reads
  bool waits = false;
  bool triggers = false;
  source reads[most_reads] = {};
};

/// The kernel of a node, for launches and graph nodes.
[[nodiscard]] const void* kernel_of(const node& n) noexcept;

} // namespace work_graph
