// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/operation.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gsched::cuda {

/// Device and pinned memory for the copies and sets of stand-ins. Never freed, because earlier
/// graphs refer to it.
class stand_in_memory {
public:
  /// Ensures that the buffer is large enough for an operation; kernels need none.
  /// Errors   device_failed with CUDA's message if memory is short.
  void reserve(const operation& op, const std::string& name);
  /// Adds a copy or a set to a graph. Call reserve first.
  [[nodiscard]] cudaGraphNode_t add(cudaGraph_t graph, std::span<const cudaGraphNode_t> after,
                                    const operation& op, const std::string& what) const;

  /// One word for each block of one kernel, for the progress of preempted blocks.
  [[nodiscard]] std::uint64_t* saved(std::uint64_t blocks, const std::string& what);

private:
  void* device_ = nullptr;
  void* host_ = nullptr;
  std::size_t device_bytes_ = 0;
  std::size_t host_bytes_ = 0;
  std::uint64_t* words_ = nullptr; ///< the unused rest of the allocation for `saved`
  std::uint64_t words_left_ = 0;
};

} // namespace gsched::cuda
