// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/end_words.hpp"

#include <gsched/cuda/driver.hpp>

#include <cstddef>
#include <cstdint>

namespace gsched::cuda {

/// What a lane runs beside the graphs of programs: a marker alone, a copy within the GPU, a set.
///
/// Copies within the GPU and sets are kernels. Kernels that are launched on several streams make
/// every later graph of the process slower; graphs of one node don't. Their nodes'
/// parameters are set before each launch, which leaves alone what was launched before.
class lane_graphs {
public:
  /// `place`: where the marker runs. `room`: some bytes of device memory, which are never touched.
  /// Uploads on a stream of that place.
  lane_graphs(int gpu, end_words& words, CUcontext primary, CUcontext place, CUdeviceptr room,
              CUstream upload);
  ~lane_graphs();
  lane_graphs(const lane_graphs&) = delete;
  lane_graphs& operator=(const lane_graphs&) = delete;

  [[nodiscard]] end_word& ends() noexcept { return *ends_; }
  /// Counts in ends(), when all before it on the stream has ended.
  [[nodiscard]] CUresult mark(CUstream on) const noexcept { return cu_.cuGraphLaunch(marker_, on); }
  /// Where the driver cannot change the node so, its graph is made anew, which allocates; or, while
  /// a kernel of the process hangs, the stream copies or sets without a graph.
  [[nodiscard]] CUresult copy(void* to, const void* from, std::size_t bytes, CUstream on) noexcept;
  [[nodiscard]] CUresult set(void* to, int byte, std::size_t bytes, CUstream on) noexcept;
  [[nodiscard]] std::uint64_t made_anew() const noexcept { return made_anew_; }
  /// Destroys nothing from now on: for a GPU that does not answer any more.
  void leave_behind() noexcept { left_ = true; }

  static constexpr std::size_t room_bytes = 256;
  static constexpr std::size_t executables = 3; ///< that it is made of

private:
  /// The graph is kept, as its node names the one to change.
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
  bool left_ = false;
};

} // namespace gsched::cuda
