// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <utility>

namespace gsched::cuda {

stream_capture::stream_capture(std::string name) : name_(std::move(name)) {
  static_cast<void>(driver()); // throws one line where the driver or a function is missing
  const std::string where = "capture of " + name_;
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), where.c_str());
  if (const cudaError_t e = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
      e != cudaSuccess) {
    cudaStreamDestroy(stream_);
    fail(code_of(e), where);
  }
  open_ = true;
}

stream_capture::~stream_capture() {
  if (open_ && cudaStreamEndCapture(stream_, &graph_) != cudaSuccess) {
    graph_ = nullptr;
    static_cast<void>(cudaGetLastError()); // the error must not surface in later calls
  }
  if (graph_ != nullptr) cudaGraphDestroy(graph_);
  cudaStreamDestroy(stream_);
}

CUgraph stream_capture::end() {
  open_ = false;
  if (const cudaError_t e = cudaStreamEndCapture(stream_, &graph_); e != cudaSuccess) {
    graph_ = nullptr;
    static_cast<void>(cudaGetLastError());
    throw error(errc::bad_graph, "capture of " + name_ + ": " + code_of(e).message() +
                                     ", expected only calls that can be captured, and every stream "
                                     "that was forked off joined again");
  }
  return graph_;
}

} // namespace gsched::cuda
