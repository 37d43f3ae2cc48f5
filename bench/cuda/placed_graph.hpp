// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>

namespace experiment {

/// A whole program as a graph whose kernels run on a partition, uploaded; the caller destroys it.
[[nodiscard]] inline CUgraphExec placed_graph(const gsched::cuda::program& p,
                                              const gsched::cuda::partition& where,
                                              CUstream stream) {
  const auto& cu = gsched::cuda::driver();
  gsched::cuda::range_options how;
  how.place = where.context();
  const CUgraph graph = p.make_range(0, p.host().size(), how);
  CUgraphExec made = nullptr;
  const CUresult r = cu.cuGraphInstantiateWithFlags(&made, graph, 0);
  cu.cuGraphDestroy(graph);
  gsched::cuda::check(r, "graph");
  gsched::cuda::check(cu.cuGraphUpload(made, stream), "graph");
  return made;
}

} // namespace experiment
