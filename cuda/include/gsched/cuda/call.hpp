// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/program.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gsched::cuda {

/// The launch configuration of a kernel: the values between <<< and >>>, without the stream.
struct call_shape {
  dim3 grid{1, 1, 1};
  dim3 block{1, 1, 1};
  unsigned dynamic_shared_bytes = 0;
  dim3 cluster{1, 1, 1}; ///< blocks per cluster; 1, 1, 1: no cluster
};

namespace detail {

/// Raises the kernel's limit of dynamic shared memory where the launch exceeds the default limit.
inline void allow_shared(const void* kernel, const call_shape& shape, const std::string& where) {
  constexpr unsigned without_asking = 48 * 1024;
  if (shape.dynamic_shared_bytes > without_asking)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shape.dynamic_shared_bytes)),
          where.c_str());
}

/// A graph of one kernel node.
class call_graph {
public:
  call_graph(const std::string& name, const void* kernel, const call_shape& shape,
             void** arguments) {
    static_cast<void>(driver()); // throws one line where the driver or a function is missing
    const std::string where = "kernel " + name;
    allow_shared(kernel, shape, where);
    cudaGraph_t made = nullptr;
    check(cudaGraphCreate(&made, 0), where.c_str());
    graph_.reset(made);
    cudaKernelNodeParams k{};
    k.func = const_cast<void*>(kernel);
    k.gridDim = shape.grid;
    k.blockDim = shape.block;
    k.sharedMemBytes = shape.dynamic_shared_bytes;
    k.kernelParams = arguments;
    cudaGraphNode_t node = nullptr;
    check(cudaGraphAddKernelNode(&node, made, nullptr, 0, &k), where.c_str());
    if (shape.cluster.x * shape.cluster.y * shape.cluster.z == 1) return;
    cudaKernelNodeAttrValue cluster{};
    cluster.clusterDim.x = shape.cluster.x;
    cluster.clusterDim.y = shape.cluster.y;
    cluster.clusterDim.z = shape.cluster.z;
    check(cudaGraphKernelNodeSetAttribute(node, cudaKernelNodeAttributeClusterDimension, &cluster),
          where.c_str());
  }

  [[nodiscard]] CUgraph get() const noexcept { return graph_.get(); }

private:
  struct destroyer {
    void operator()(cudaGraph_t g) const noexcept { cudaGraphDestroy(g); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, destroyer> graph_{};
};

/// Calls `use` with a graph of one kernel node, whose arguments are copied now. The graph is
/// destroyed on return.
template <class Use, class... Parameters, class... Arguments>
[[nodiscard]] auto with_call_graph(const std::string& name, const call_shape& shape, const Use& use,
                                   void (*kernel)(Parameters...), Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "as many arguments as the kernel has parameters");
  std::tuple<std::remove_cv_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
  return std::apply(
      [&](auto&... value) {
        // One element more than arguments: a kernel without parameters also needs an array.
        std::array<void*, sizeof...(Parameters) + 1> pointers{
            const_cast<void*>(static_cast<const void*>(std::addressof(value)))..., nullptr};
        const call_graph graph(name, reinterpret_cast<const void*>(kernel), shape, pointers.data());
        return use(graph.get());
      },
      values);
}

} // namespace detail

/// Makes a program of one operation: the caller's kernel with the arguments as they are now.
///
///   make_call({.name = "scale"}, {.grid = blocks, .block = 256}, scale, data, n, 2.0f);
///
/// Pass `report{}` for a gsched::cuda::report parameter, and preemption::between_blocks() or
/// preemption::at_checkpoints() for a preemption parameter. A device replaces both in the graphs
/// that it builds.
///
/// Errors   as program; device_failed with CUDA's message for an invalid launch configuration.
template <class... Parameters, class... Arguments>
[[nodiscard]] program make_call(const program_options& how, const call_shape& shape,
                                void (*kernel)(Parameters...), Arguments&&... arguments) {
  return detail::with_call_graph(
      how.name, shape, [&](CUgraph graph) { return program(graph, how); }, kernel,
      std::forward<Arguments>(arguments)...);
}

} // namespace gsched::cuda
