// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "experiment.hpp"
#include "standing/graphs.hpp"
#include "standing/kernels.hpp"

#include <gsched/cuda/gpu.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace standing {

/// Limits the time of the steps of a case. If a step takes too long, it releases all graphs by
/// stores to pinned memory; if the step still does not end, it prints the case as hung, as a line
/// of JSON, and ends the process with status 3.
///
/// Threads  everything from the case's thread.
class guard {
public:
  explicit guard(std::function<void()> release);
  ~guard();
  guard(const guard&) = delete;
  guard& operator=(const guard&) = delete;

  void begin(std::string which);
  /// Starts a step with a time limit.
  void step(std::string what, double seconds = 3);
  /// Ends the step.
  void rest();
  /// The step in which the graphs were released because it took too long, if any.
  [[nodiscard]] std::optional<std::string> released_in() const;

private:
  void watch();

  std::function<void()> release_;
  mutable std::mutex mutex_;
  std::string case_, what_;
  double until_ = -1;
  bool releasing_ = false;
  std::optional<std::string> released_in_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

/// Returns true as soon as the condition holds; false if it does not within that time.
template <class Condition>
[[nodiscard]] bool holds_within(double seconds, Condition holds) {
  const double end = experiment::seconds_now() + seconds;
  while (!holds())
    if (experiment::seconds_now() > end) return holds();
  return true;
}
inline void pass(double seconds) {
  static_cast<void>(holds_within(seconds, [] { return false; }));
}

/// Shared by all cases of a child process: the GPU, words in pinned memory, the guard. Nothing is
/// freed; the process ends by _Exit.
class scene {
public:
  static constexpr std::size_t most_graphs = 4; ///< held at the same time
  static constexpr std::size_t most_marks = 64;

  explicit scene(int ordinal);

  [[nodiscard]] const gsched::cuda::gpu& gpu() const noexcept { return gpu_; }
  [[nodiscard]] const graph_maker& make() const noexcept { return *make_; }
  [[nodiscard]] guard& watch() noexcept { return *guard_; }
  [[nodiscard]] const node_memory& memory() const noexcept { return memory_; }

  /// The words that hold the i-th graph.
  [[nodiscard]] graph_words words(std::size_t i) const;
  /// Holds the i-th graph at that gate from its next launch on. All calls before the first launch.
  void hold(std::size_t i, gate_way how, unsigned gate);
  /// Starts the kernel that releases wait nodes on device memory: a store of the host cannot reach
  /// them, and a write through a stream may itself be blocked. Before the launches.
  void arm_release();
  /// Releases all graphs, by stores alone. From any thread.
  void release() noexcept;
  /// Whether a gate of the i-th graph holds. Unknown for wait nodes.
  [[nodiscard]] bool stands(std::size_t i) const noexcept;

  /// Waits for the whole GPU, limited by the guard.
  void drain();

  /// The graph of one kernel that stores 1 to the i-th mark; uploaded.
  [[nodiscard]] executable make_marker(std::size_t i);
  [[nodiscard]] CUdeviceptr mark_at(std::size_t i) const noexcept;
  [[nodiscard]] bool marked(std::size_t i) const noexcept;
  void clear_marks() noexcept;

  /// Does not synchronize with the legacy default stream.
  [[nodiscard]] cudaStream_t new_stream(bool urgent);

private:
  struct pinned_words {
    struct alignas(128) line_of_graph {
      hold_line line;
    } lines[most_graphs];
    alignas(128) std::uint32_t waits[most_graphs * most_waits];
    alignas(128) release_line release;
    alignas(128) std::uint32_t marks[most_marks];
  };
  [[nodiscard]] CUdeviceptr at(const void* word) const noexcept;

  gsched::cuda::gpu gpu_;
  node_memory memory_;
  pinned_words* pinned_ = nullptr;
  CUdeviceptr pinned_at_ = 0;
  CUdeviceptr device_waits_ = 0;
  int highest_ = 0;
  std::optional<graph_maker> make_;
  executable release_graph_;
  cudaStream_t release_stream_ = nullptr;
  std::optional<guard> guard_;
};

/// The kernels of graphs whose own time does not matter.
inline constexpr kernel_shape small_kernels{3, 16};

/// A graph of one kernel that sets mark 0, on its own urgent stream.
class marked_launch {
public:
  explicit marked_launch(scene& s);
  void launch() const;
  /// Whether the stream has unfinished work.
  void query() const;

private:
  executable graph_;
  cudaStream_t on_;
};

/// A graph that can be held, on its own stream, and a marked_launch beside it. Both have run once,
/// so that their first launches are over.
struct standing_pair {
  explicit standing_pair(scene& s);
  /// Holds the graph from now on, until the scene releases it.
  void hold_and_launch(scene& s) const;

  executable held;
  cudaStream_t held_on;
  marked_launch beside;
};

/// A thread that runs one function at a time, with the GPU current.
class worker {
public:
  explicit worker(int gpu);
  ~worker(); ///< waits for the function to return
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  /// Not before the previous function has returned.
  void post(std::function<void()> f);
  [[nodiscard]] bool returned() const noexcept;
  /// The time of the function that has returned. Rethrows its exception.
  [[nodiscard]] double us();

private:
  void work(int gpu);

  std::mutex mutex_;
  std::condition_variable posted_;
  std::function<void()> function_;
  bool ends_ = false;
  std::atomic<bool> returned_{true};
  double us_ = 0;
  std::exception_ptr failed_;
  std::thread thread_;
};

} // namespace standing
