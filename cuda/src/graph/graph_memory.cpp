// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_memory.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace gsched::cuda {

namespace {

/// The GPU in whose memory an address is; none for memory of the host, managed memory, and what is
/// no address.
std::optional<int> gpu_of(CUdeviceptr at) noexcept {
  const auto told = [&](auto& into, CUpointer_attribute which) {
    return driver().cuPointerGetAttribute(&into, which, at) == CUDA_SUCCESS;
  };
  unsigned type = 0;
  unsigned managed = 0;
  int gpu = 0;
  if (at == 0 || !told(type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) || type != CU_MEMORYTYPE_DEVICE ||
      !told(managed, CU_POINTER_ATTRIBUTE_IS_MANAGED) || managed != 0 ||
      !told(gpu, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL))
    return std::nullopt;
  return gpu;
}

/// Calls f with each address that an operation is given, until it says that it has seen enough:
/// of a kernel each word of its arguments that may be one, structs included.
template <class F>
bool any_address(const program_node& node, const std::string& where, F f) {
  if (node.type == CU_GRAPH_NODE_TYPE_MEMSET) return f(node.set.dst);
  if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    const auto end = [&](CUmemorytype type, CUdeviceptr at) {
      return type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_ARRAY && f(at);
    };
    return end(node.copy.dstMemoryType, node.copy.dstDevice) ||
           end(node.copy.srcMemoryType, node.copy.srcDevice);
  }
  return node.any_word(where, [&](std::size_t, std::uint64_t word) { return f(word); });
}

} // namespace

void expect_memory_of(int gpu, const std::deque<program_node>& nodes, const std::string& where) {
  std::optional<int> other;
  const auto is_here = [&](CUdeviceptr at) {
    const std::optional<int> whose = gpu_of(at);
    if (whose && *whose != gpu) other = whose;
    return whose == gpu;
  };
  for (const program_node& node : nodes)
    if (any_address(node, where, is_here)) return;
  if (other)
    throw error(errc::bad_graph, where + "its memory is of GPU " + std::to_string(*other) +
                                     ", expected a graph of GPU " + std::to_string(gpu));
}

} // namespace gsched::cuda
