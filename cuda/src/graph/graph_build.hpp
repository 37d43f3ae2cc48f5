// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph_order.hpp"

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gsched::cuda {

/// Attributes of a kernel node that differ from those of a new node of the same kernel.
using node_attributes = std::vector<CUlaunchAttribute>;

/// Reads the attributes of kernel nodes. One for all nodes of a graph: it asks for the defaults
/// of each kernel once.
class attribute_reader {
public:
  attribute_reader();
  ~attribute_reader();
  attribute_reader(const attribute_reader&) = delete;
  attribute_reader& operator=(const attribute_reader&) = delete;

  /// `what` is named in errors: device_failed with CUDA's words.
  [[nodiscard]] node_attributes read(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& params,
                                     const std::string& what);

private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Lets a kernel have as much dynamic shared memory, and as large a cluster, as it was captured
/// with. A library may have lowered the limits of its function since, and then the driver would
/// refuse to make a node that has just run.
void allow_as_captured(CUfunction function, std::uint32_t dynamic_shared_bytes) noexcept;

/// Adds a kernel node, without edges. `place`: a green context on whose SMs it runs; null: where it
/// was captured to run.
///
/// Errors   with a place: bad_graph for a kernel that belongs to one context, as those of
///          cuModuleLoad do: "WHAT: kernel NAME ..."; device_failed with CUDA's words.
[[nodiscard]] CUgraphNode add_kernel_node(CUgraph graph, CUDA_KERNEL_NODE_PARAMS params,
                                          const node_attributes& attributes, CUcontext place,
                                          const std::string& what);

/// Adds a kernel of one thread, without edges, on the SMs of a context or, if that is null, of the
/// current one.
[[nodiscard]] CUgraphNode add_one_thread(CUgraph graph, CUkernel kernel, void** arguments,
                                         CUcontext place, const std::string& what);

/// Adds a copy of a host, event or empty node, without edges; a node without a handle becomes an
/// empty node.
[[nodiscard]] CUgraphNode add_other_node(CUgraph graph, const flat_node& node,
                                         const std::string& what);

/// Edges to be added to a graph, in as few calls as the driver allows.
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
