// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cliff/kernels.hpp"
#include "experiment.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cliff {

struct figures {
  double large_us = 0; ///< a replay of the graph of 700 kernels, by events around it
  double small_us = 0; ///< of 100 kernels
  double wall_us = 0;  ///< of 700 kernels, on the host: from launch to synchronised
};

/// Graphs that are replayed on a stream to measure the speed of this process. Belongs to the
/// context that was current at its creation. Nothing is freed: a process is one experiment.
class reference {
public:
  /// The large graph has 700 kernels in `width` parallel chains; `flags` are those of its
  /// instantiation.
  explicit reference(cudaStream_t stream, std::size_t width = 1, unsigned flags = 0);

  /// Medians.
  [[nodiscard]] figures measure(int runs = 30, int warm = 20);
  /// Creates new graphs and measures them.
  void instantiate();
  void upload();
  void move_to(cudaStream_t stream) { stream_ = stream; }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

private:
  [[nodiscard]] double once(cudaGraphExec_t graph);

  cudaStream_t stream_;
  std::size_t width_;
  unsigned flags_;
  float* memory_ = nullptr;
  cudaEvent_t before_ = nullptr;
  cudaEvent_t after_ = nullptr;
  cudaGraphExec_t large_ = nullptr;
  cudaGraphExec_t small_ = nullptr;
};

/// A graph of `width` parallel chains of `depth` kernels each; with several chains, between a first
/// and a last kernel.
[[nodiscard]] cudaGraphExec_t make_graph(std::size_t width, std::size_t depth, float* memory,
                                         unsigned flags = 0);

/// One process under experiment: measures the reference at each mark, and provides the triggers.
class scene {
public:
  explicit scene(experiment::watchdog& dog);

  /// Replays the reference.
  void mark(const std::string& label);
  void mark(const std::string& label, reference& what);
  /// Direct launches, on each stream alternately.
  void launch(kernel which, const std::vector<cudaStream_t>& on, int each, bool wait_each = false);
  /// A known trigger: 50 kernels on each of 8 new streams.
  std::vector<cudaStream_t> cross();
  /// New streams, non-blocking by default.
  [[nodiscard]] std::vector<cudaStream_t>
  streams(std::size_t n, unsigned flags = cudaStreamNonBlocking, int priority = 0);
  /// Microseconds a kernel, for many consecutive kernels of a stream, submitted in advance.
  [[nodiscard]] double direct_us(cudaStream_t on);
  void synchronise();
  /// Destroys and recreates all state of this process on the GPU.
  void reset_device();

  [[nodiscard]] reference& graphs() { return *reference_; }
  [[nodiscard]] cudaStream_t main() const { return main_; }
  [[nodiscard]] float* memory() const { return memory_; }
  [[nodiscard]] experiment::watchdog& dog() const { return dog_; }

  std::vector<std::pair<std::string, figures>> marks;
  std::map<std::string, double> extras;

private:
  void make();

  experiment::watchdog& dog_;
  cudaStream_t main_ = nullptr;
  float* memory_ = nullptr;
  reference* reference_ = nullptr;
};

} // namespace cliff
