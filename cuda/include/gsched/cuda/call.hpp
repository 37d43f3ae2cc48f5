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

/// How a kernel is launched: what stands between <<< and >>>, but for the stream.
struct call_shape {
  dim3 grid{1, 1, 1};
  dim3 block{1, 1, 1};
  unsigned dynamic_shared_bytes = 0;
  dim3 cluster{1, 1, 1}; ///< blocks of a cluster; 1, 1, 1 is no cluster
};

namespace detail {

/// More dynamic shared memory than kernels have without asking has to be asked for.
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
    static_cast<void>(driver()); // says in one line what is absent
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

/// Gives `use` a graph of a kernel with its arguments as they are now, for as long as it runs.
template <class Use, class... Parameters, class... Arguments>
[[nodiscard]] auto with_call_graph(const std::string& name, const call_shape& shape, const Use& use,
                                   void (*kernel)(Parameters...), Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "as many arguments as the kernel has parameters");
  std::tuple<std::remove_cv_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
  return std::apply(
      [&](auto&... value) {
        // One more than there are, so that a kernel without parameters has an array as well.
        std::array<void*, sizeof...(Parameters) + 1> pointers{
            const_cast<void*>(static_cast<const void*>(std::addressof(value)))..., nullptr};
        const call_graph graph(name, reinterpret_cast<const void*>(kernel), shape, pointers.data());
        return use(graph.get());
      },
      values);
}

} // namespace detail

/// A program of one operation: a kernel of the caller's own, with its arguments as they are now.
///
///   make_call({.name = "scale"}, {.grid = blocks, .block = 256}, scale, data, n, 2.0f);
///
/// A gsched::cuda::report among the parameters is given as `report{}`, and a preemption as
/// preemption::between_blocks() or at_checkpoints(): devices put theirs in.
///
/// Errors   those of program; device_failed with CUDA's words for a shape that cannot be launched.
template <class... Parameters, class... Arguments>
[[nodiscard]] program make_call(const program_options& how, const call_shape& shape,
                                void (*kernel)(Parameters...), Arguments&&... arguments) {
  return detail::with_call_graph(
      how.name, shape, [&](CUgraph graph) { return program(graph, how); }, kernel,
      std::forward<Arguments>(arguments)...);
}

} // namespace gsched::cuda
