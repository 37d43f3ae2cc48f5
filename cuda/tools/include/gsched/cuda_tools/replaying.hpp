// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/replay_times.hpp>

#include <cuda.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace gsched::cuda {

/// A program as one executable graph on a set of SMs.
///
/// Errors   constructor: as program::make_range; device_failed with CUDA's message.
/// Cost     construction about a millisecond for some hundred nodes.
/// Threads  one owner.
class placed_graph {
public:
  /// On a partition, or on all SMs of the current GPU if `where` is null. The program must outlive
  /// this object. A graph belongs to one set of SMs for good. `keep_memory_nodes`: as in
  /// range_options.
  placed_graph(const program& of, std::shared_ptr<const partition> where,
               bool keep_memory_nodes = false);
  ~placed_graph();
  placed_graph(placed_graph&&) noexcept;
  placed_graph& operator=(placed_graph&&) noexcept;

  /// The SMs on which its kernels run.
  [[nodiscard]] sm_count sms() const noexcept;
  /// Uploads it on this stream, so that its first launch does not.
  /// Errors   device_failed with CUDA's message.
  void upload(CUstream on) const;
  /// Launches it once.
  /// Errors   device_failed with CUDA's message.
  void launch(CUstream on) const;

private:
  friend class replayer;
  struct state;
  std::unique_ptr<state> state_;
};

/// Options of replayer.
struct replay_options {
  duration alone = std::chrono::microseconds{1500}; ///< that a call of `alone` measures, about
  duration together = std::chrono::milliseconds{5}; ///< a call of `together`, at least
  std::size_t least = 3; ///< replays of each graph that a call of `together` measures
  /// Called after a few replays each, if there is one, so that a caller can tell a graph that takes
  /// long from one that hangs.
  std::function<void()> progressed{};
};

/// Times replays of graphs, alone and beside each other, by an event before and behind each replay.
///
/// Graphs are replayed back to back: the host submits ahead, so that its time is not measured. A
/// time includes about 1 us for the two events; where a graph is shorter than its launch by the
/// host, it also includes the rest of that launch. To compare variants, call the functions for all
/// of them in turn, several times.
///
/// Units    microseconds.
/// Errors   device_failed with CUDA's message; bad_option for graphs of one program at once, as
///          both would write its memory.
/// Threads  one owner. Nothing else may run on the GPU.
class replayer {
public:
  explicit replayer(const replay_options& how = {});
  ~replayer();
  replayer(const replayer&) = delete;
  replayer& operator=(const replayer&) = delete;

  /// Appends the times of two replays or more of one graph, behind two that warm up. Null: on a
  /// stream of its own, with nothing else running. On a given one, which is on the graph's SMs,
  /// work on other streams may run beside it, which a new stream could share a hardware queue with.
  void alone(const placed_graph& g, std::vector<double>& into, CUstream on = nullptr);

  /// Replays all graphs at the same time, each on a stream of its own, and appends those times that
  /// lie wholly in the interval in which every graph ran.
  ///
  /// Returns the overlap: the part of that interval in which the least busy graph had a replay on
  /// the GPU. It is near 1 unless the host could not keep up.
  [[nodiscard]] double together(std::span<const placed_graph* const> graphs,
                                std::span<std::vector<double>> into);

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched::cuda
