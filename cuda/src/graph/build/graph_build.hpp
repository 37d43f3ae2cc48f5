// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/flatten/graph_order.hpp"

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gsched::cuda {

/// The attributes of a kernel node that differ from the defaults of its kernel.
using node_attributes = std::vector<CUlaunchAttribute>;

/// Reads the attributes of kernel nodes. Use one object for all nodes of a graph: it queries the
/// defaults of each kernel once.
class attribute_reader {
public:
  attribute_reader();
  ~attribute_reader();
  attribute_reader(const attribute_reader&) = delete;
  attribute_reader& operator=(const attribute_reader&) = delete;

  /// Errors   device_failed with CUDA's message; the line begins with `what`.
  [[nodiscard]] node_attributes read(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& params,
                                     const std::string& what);

private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Allows a kernel as much dynamic shared memory as it was captured with. A library may have
/// lowered the limit of its function since; the driver would then refuse to add a node that has run
/// before.
void allow_as_captured(CUfunction function, std::uint32_t dynamic_shared_bytes) noexcept;

/// Adds a kernel node without edges. `place`: the green context on whose SMs it runs; null: as
/// captured.
///
/// Errors   with a place: bad_graph for a kernel that belongs to one context (of cuModuleLoad):
///          "WHAT: kernel NAME ..."; device_failed with CUDA's message.
[[nodiscard]] CUgraphNode add_kernel_node(CUgraph graph, CUDA_KERNEL_NODE_PARAMS params,
                                          const node_attributes& attributes, CUcontext place,
                                          const std::string& what);

/// Adds a kernel of one thread without edges, on the SMs of `place`, or of the current context if
/// `place` is null.
[[nodiscard]] CUgraphNode add_one_thread(CUgraph graph, CUkernel kernel, void** arguments,
                                         CUcontext place, const std::string& what);

/// Adds a copy of a host, event or empty node, without edges. A node without a handle becomes an
/// empty node.
[[nodiscard]] CUgraphNode add_other_node(CUgraph graph, const flat_node& node,
                                         const std::string& what);

/// Edges to add to a graph, in as few calls as the driver allows.
class edge_list {
public:
  void add(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData& data = {}) {
    from_.push_back(from);
    to_.push_back(to);
    data_.push_back(data);
  }
  void add_to(CUgraph graph, const std::string& what) const;

private:
  std::vector<CUgraphNode> from_, to_;
  std::vector<CUgraphEdgeData> data_;
};

} // namespace gsched::cuda
