// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/program.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <concepts>
#include <string>
#include <utility>

namespace gsched::cuda {

/// A stream in capture mode: it records the work submitted to it and runs nothing.
///
/// Differs  the capture is thread-local. Other threads are not affected; the capturing thread must
///          not allocate or wait on the GPU before end().
/// Errors   device_failed with CUDA's message if the capture cannot begin.
/// Threads  one.
class stream_capture {
public:
  explicit stream_capture(std::string name);
  /// Ends the capture and destroys its graph.
  ~stream_capture();
  stream_capture(const stream_capture&) = delete;
  stream_capture& operator=(const stream_capture&) = delete;

  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  /// Ends the capture. This object owns the returned graph.
  ///
  /// Errors   bad_graph, one line with CUDA's message: a call that cannot be captured, or a forked
  ///          stream that was not joined.
  [[nodiscard]] CUgraph end();

private:
  std::string name_;
  cudaStream_t stream_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  bool open_ = false;
};

/// Makes a program of the kernels, library calls and copies that f(cudaStream_t) submits to the
/// stream. The caller owns the memory that they use; it must outlive the program.
///
/// Errors   the exception of f, after the capture has ended cleanly; as stream_capture and program.
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
