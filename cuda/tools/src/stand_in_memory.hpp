// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/operation.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gsched::cuda {

/// Device and pinned memory that the copies and sets of stand-ins use. Earlier graphs point into
/// it, so what was outgrown is kept; it is never freed.
class stand_in_memory {
public:
  /// Room for that operation; kernels need none.
  /// Errors   device_failed with CUDA's words where memory is short.
  void reserve(const operation& op, const std::string& name);
  /// Adds a copy or a set to a graph; there must be room for it.
  [[nodiscard]] cudaGraphNode_t add(cudaGraph_t graph, std::span<const cudaGraphNode_t> after,
                                    const operation& op, const std::string& what) const;

  /// Room for what blocks that leave save, a word each; for one kernel alone.
  [[nodiscard]] std::uint64_t* saved(std::uint64_t blocks, const std::string& what);

private:
  void* device_ = nullptr;
  void* host_ = nullptr;
  std::size_t device_bytes_ = 0;
  std::size_t host_bytes_ = 0;
  std::uint64_t* words_ = nullptr; ///< the rest of what was allocated for `saved`
  std::uint64_t words_left_ = 0;
};

} // namespace gsched::cuda
