// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/figures.hpp"
#include "padding/subjects.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace padding {

/// Runs kernels with stamps one after another in one graph, in another order each round, so that
/// all see the same state of the GPU and each follows each.
class timeline {
public:
  static constexpr std::size_t most = 512; ///< kernels of a graph

  timeline();
  ~timeline();
  timeline(const timeline&) = delete;
  timeline& operator=(const timeline&) = delete;

  /// Adds a kernel with a real-time part to a graph.
  using adder =
      std::function<cudaGraphNode_t(cudaGraph_t, std::span<const cudaGraphNode_t>, stamps*)>;

  /// One for each kernel, in their order.
  [[nodiscard]] std::vector<figures> run(std::span<const adder> kernels, unsigned rounds,
                                         unsigned seed) const;

  [[nodiscard]] cudaStream_t stream() const { return stream_; }

private:
  stamps* device_ = nullptr;
  stamps* host_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

/// Median times in microseconds of graphs that are launched alternately.
[[nodiscard]] std::vector<double> time_in_turn(std::span<const cudaGraph_t> graphs, unsigned rounds,
                                               cudaStream_t stream);

} // namespace padding
