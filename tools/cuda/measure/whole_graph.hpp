// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/program.hpp>

#include <cuda.h>

namespace measure {

/// Owns a graph of all operations of a program.
class whole_graph {
public:
  explicit whole_graph(const gsched::cuda::program& of)
      : graph_(of.make_range(0, of.host().size())) {}
  ~whole_graph() { gsched::cuda::driver().cuGraphDestroy(graph_); }
  whole_graph(const whole_graph&) = delete;
  whole_graph& operator=(const whole_graph&) = delete;

  [[nodiscard]] CUgraph get() const noexcept { return graph_; }

private:
  CUgraph graph_;
};

} // namespace measure
