// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/end/end_words.hpp"

#include <gsched/cuda/driver.hpp>

#include <cstddef>
#include <cstdint>

namespace gsched::cuda {

/// The graphs of a lane beside those of programs: a marker, a copy within the GPU, a set.
///
/// Copies within the GPU and sets are kernels. Kernels launched on several streams slow every later
/// graph of the process; graphs of one node do not. The parameters of the node are set before each
/// launch, which does not affect earlier launches.
class lane_graphs {
public:
  /// `place`: the context of the marker. `room`: some bytes of device memory that are never
  /// accessed. `upload`: a stream of that place.
  lane_graphs(int gpu, end_words& words, CUcontext primary, CUcontext place, CUdeviceptr room,
              CUstream upload);
  ~lane_graphs();
  lane_graphs(const lane_graphs&) = delete;
  lane_graphs& operator=(const lane_graphs&) = delete;

  [[nodiscard]] end_word& ends() noexcept { return *ends_; }
  /// Counts in ends() when all earlier work of the stream has ended.
  [[nodiscard]] CUresult mark(CUstream on) const noexcept { return cu_.cuGraphLaunch(marker_, on); }
  /// If the driver cannot change the node, its graph is rebuilt, which allocates. While a kernel of
  /// the process hangs, the stream copies or sets without a graph instead.
  [[nodiscard]] CUresult copy(void* to, const void* from, std::size_t bytes, CUstream on) noexcept;
  [[nodiscard]] CUresult set(void* to, int byte, std::size_t bytes, CUstream on) noexcept;
  [[nodiscard]] std::uint64_t made_anew() const noexcept { return made_anew_; }
  /// Disables all destruction from now on: for a GPU that does not respond.
  void abandon() noexcept { abandoned_ = true; }

  static constexpr std::size_t room_bytes = 256;
  static constexpr std::size_t executables = 3; ///< number of its executable graphs

private:
  /// The graph is kept, because its node identifies the node to change.
  struct one_node {
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec exec = nullptr;
  };
  [[nodiscard]] CUresult make(one_node& g, const CUDA_MEMCPY3D& c) noexcept;
  [[nodiscard]] CUresult make(one_node& g, const CUDA_MEMSET_NODE_PARAMS& s) noexcept;
  [[nodiscard]] CUresult finish(one_node& made, one_node& into, CUresult so_far) noexcept;
  [[nodiscard]] CUresult change(one_node& g, const CUDA_MEMCPY3D& c) noexcept;
  [[nodiscard]] CUresult change(one_node& g, const CUDA_MEMSET_NODE_PARAMS& s) noexcept;
  template <class What>
  [[nodiscard]] CUresult run(one_node& g, const What& what, CUstream on) noexcept;
  void destroy(one_node& g) noexcept;
  void destroy_all() noexcept;

  [[nodiscard]] CUresult run_alone(const CUDA_MEMCPY3D& c, CUstream on) const noexcept;
  [[nodiscard]] CUresult run_alone(const CUDA_MEMSET_NODE_PARAMS& s, CUstream on) const noexcept;

  int gpu_;
  const driver_functions& cu_;
  end_words& words_;
  CUcontext primary_;
  end_word* ends_ = nullptr;
  CUgraphExec marker_ = nullptr;
  one_node copy_{};
  one_node set_{};
  std::uint64_t made_anew_ = 0;
  bool abandoned_ = false;
};

} // namespace gsched::cuda
