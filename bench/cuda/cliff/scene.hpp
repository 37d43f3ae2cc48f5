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
  double wall_us = 0;  ///< of 700, as the host sees it: launch to synchronised
};

/// Graphs that are replayed on a stream to see how fast this process is now. Belongs to the context
/// that was current when it was made. Nothing is freed: a process is one experiment.
class reference {
public:
  /// The large graph is 700 kernels in `width` parallel chains; `flags` are of instantiation.
  explicit reference(cudaStream_t stream, std::size_t width = 1, unsigned flags = 0);

  /// Medians.
  [[nodiscard]] figures measure(int runs = 30, int warm = 20);
  /// Anew, from nothing.
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

/// A graph of `width` parallel chains of `depth` kernels each; with more than one, between a first
/// and a last kernel.
[[nodiscard]] cudaGraphExec_t make_graph(std::size_t width, std::size_t depth, float* memory,
                                         unsigned flags = 0);

/// One process under experiment: marks what the reference takes at each point, and has the
/// triggers.
class scene {
public:
  explicit scene(experiment::watchdog& dog);

  /// Replays the reference.
  void mark(const std::string& label);
  void mark(const std::string& label, reference& what);
  /// Direct launches, on each stream in turn.
  void launch(kernel which, const std::vector<cudaStream_t>& on, int each, bool wait_each = false);
  /// What is known to cross: 50 kernels on each of 8 new streams.
  std::vector<cudaStream_t> cross();
  /// New streams, non-blocking as a rule.
  [[nodiscard]] std::vector<cudaStream_t>
  streams(std::size_t n, unsigned flags = cudaStreamNonBlocking, int priority = 0);
  /// Microseconds a kernel takes on a stream, many in a row, submitted ahead.
  [[nodiscard]] double direct_us(cudaStream_t on);
  void synchronise();
  /// All of this process's state on the GPU goes, and is made again.
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
