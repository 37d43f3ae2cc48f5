// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/program.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <concepts>
#include <string>
#include <utility>

namespace gsched::cuda {

/// A stream of its own that records what it is given, instead of running it, while this lives.
///
/// Differs  the capture is thread-local: other threads go on as they like, and this one must not
///          allocate or wait on the GPU until it has ended.
/// Errors   device_failed with CUDA's words where no capture can begin.
/// Threads  one.
class stream_capture {
public:
  explicit stream_capture(std::string name);
  /// What was captured and not taken is thrown away.
  ~stream_capture();
  stream_capture(const stream_capture&) = delete;
  stream_capture& operator=(const stream_capture&) = delete;

  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  /// Ends it. The graph stays this object's.
  /// Errors   bad_graph, one line with CUDA's words: something was called that cannot be captured,
  ///          or a stream that was forked off was not joined again.
  [[nodiscard]] CUgraph end();

private:
  std::string name_;
  cudaStream_t stream_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  bool open_ = false;
};

/// A program of what f(cudaStream_t) puts into the stream: kernels, library calls, copies. Memory
/// that they use is f's caller's, and lives as long as the program.
///
/// Errors   what f throws, after the capture has ended cleanly; those of stream_capture and
///          program.
template <std::invocable<cudaStream_t> F>
[[nodiscard]] program capture(const program_options& how, F&& f) {
  stream_capture recording(how.name);
  std::forward<F>(f)(recording.stream());
  return program(recording.end(), how);
}

template <std::invocable<cudaStream_t> F>
[[nodiscard]] program capture(std::string name, F&& f) {
  program_options how;
  how.name = std::move(name);
  return capture(how, std::forward<F>(f));
}

} // namespace gsched::cuda
