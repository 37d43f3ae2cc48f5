// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels.hpp"
#include "oracle.hpp"
#include "spec.hpp"

#include <gsched/core/time.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace work_graph {

/// Properties of the current GPU for the builder.
struct gpu_facts {
  unsigned sms = 0;
  std::size_t full_shared_bytes = 0; ///< dynamic shared memory that a block can have
  int least_priority = 0;
  int greatest_priority = 0;
  double cycles_per_us = 1;
};
/// Also lets kernels have that much shared memory.
/// Errors   those of CUDA, as gsched::error.
[[nodiscard]] gpu_facts prepare_gpu();

/// Device memory and pinned memory, allocated in parts and freed as a whole, so that nothing is
/// allocated or freed while work is on the GPU.
class memory_pool {
public:
  memory_pool(std::size_t device_bytes, std::size_t host_bytes);
  ~memory_pool();
  memory_pool(const memory_pool&) = delete;
  memory_pool& operator=(const memory_pool&) = delete;

  struct piece {
    std::span<std::byte> device;
    std::span<std::byte> host;
  };
  /// Errors   gsched::error too_small.
  [[nodiscard]] piece take(const layout& l);
  void take_all_back() noexcept { device_used_ = host_used_ = 0; }

private:
  std::span<std::byte> device_;
  std::span<std::byte> host_;
  std::size_t device_used_ = 0;
  std::size_t host_used_ = 0;
};

/// A graph as a CUDA graph with its own memory, which the pool must keep as long as anything made
/// from the CUDA graph runs.
class built_graph {
public:
  /// Errors   those of CUDA, as gsched::error, with the node.
  built_graph(const graph& g, const gpu_facts& gpu, memory_pool& pool);
  ~built_graph();
  built_graph(built_graph&&) noexcept;
  built_graph& operator=(built_graph&&) = delete;

  [[nodiscard]] cudaGraph_t get() const noexcept { return graph_; }
  /// Restores the memory before the first run. Nothing of it runs.
  void reset();
  /// The present memory, device and pinned; nothing of it runs.
  struct contents {
    std::vector<std::byte> device;
    std::vector<std::byte> host;
  };
  [[nodiscard]] contents read() const;
  /// The time of each operation, in the order of programs.
  [[nodiscard]] std::vector<gsched::duration> durations() const;

private:
  [[nodiscard]] node_work work_of(std::uint32_t i) const;
  [[nodiscard]] std::byte* at(std::uint32_t i) const noexcept;
  [[nodiscard]] std::byte* source_of(std::uint32_t i) const noexcept;
  [[nodiscard]] unsigned blocks_of(const node& n) const;
  [[nodiscard]] std::size_t shared_of(const node& n) const noexcept;
  [[nodiscard]] int priority_of(const node& n) const noexcept;
  [[nodiscard]] cudaGraph_t build_level(std::uint32_t parent, std::vector<cudaGraphNode_t>& made);
  [[nodiscard]] cudaGraphNode_t add_node(cudaGraph_t to, std::uint32_t i,
                                         std::span<const cudaGraphNode_t> after,
                                         std::vector<cudaGraphNode_t>& made);
  void set_attributes(cudaGraphNode_t at, const node& n) const;
  [[nodiscard]] cudaGraph_t capture();
  void launch(std::uint32_t i, cudaStream_t on);
  [[nodiscard]] std::string where(std::uint32_t i) const;

  graph graph_of_;
  gpu_facts gpu_;
  layout layout_;
  memory_pool::piece memory_;
  std::vector<std::unique_ptr<node_work>> host_works_; ///< what host nodes are given
  cudaGraph_t graph_ = nullptr;
};

/// Compares a device's memory with an oracle's: the first node whose buffer differs, in a line;
/// empty if all are equal.
[[nodiscard]] std::string difference(const graph& g, const built_graph::contents& found,
                                     const oracle& expected);

} // namespace work_graph
