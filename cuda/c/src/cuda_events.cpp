// SPDX-License-Identifier: Apache-2.0
#include "cuda_events.hpp"

#include "refusal.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <functional>
#include <memory>
#include <utility>

namespace gsched::abi {

namespace {

// A capture in another thread refuses queries until it has ended; its codes are 900 to 907.
constexpr int first_of_capture = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
constexpr int last_of_capture = CUDA_ERROR_CAPTURED_EVENT;
static_assert(first_of_capture == 900 && last_of_capture == 907);

[[nodiscard]] event_answer query(int gpu, void* event) noexcept {
  using kind = event_answer::kind;
  const cuda::current_gpu here(gpu);
  const CUresult e = cuda::driver().cuEventQuery(static_cast<CUevent>(event));
  if (e == CUDA_SUCCESS) return {kind::complete, 0};
  const bool capturing = e >= first_of_capture && e <= last_of_capture;
  if (e == CUDA_ERROR_NOT_READY || capturing) return {kind::pending, 0};
  return {kind::failed, static_cast<int>(e)};
}

} // namespace

namespace {

[[nodiscard]] event_source source_of(int gpu, std::function<int(void* event)> record) {
  return {[gpu](void* event) { return query(gpu, event); }, std::move(record),
          [](int code) { return cuda::code_of(static_cast<CUresult>(code)).message(); },
          [](int code) {
            return code == CUDA_ERROR_INVALID_VALUE || code == CUDA_ERROR_INVALID_HANDLE;
          }};
}

} // namespace

event_source cuda_events(cuda::device& of) {
  return source_of(of.facts().ordinal,
                   [&of](void* event) { return of.record(static_cast<CUevent>(event)).value(); });
}

event_source cuda_events(int gpu) {
  const cuda::current_gpu here(gpu);
  cudaStream_t made = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "stream for events");
  const std::shared_ptr<void> stream(
      made, [](void* s) { static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(s))); });
  return source_of(gpu, [gpu, stream](void* event) {
    const cuda::current_gpu there(gpu);
    return static_cast<int>(cuda::driver().cuEventRecord(static_cast<CUevent>(event),
                                                         static_cast<CUstream>(stream.get())));
  });
}

std::shared_ptr<void> mark_stream(int gpu, void* stream) {
  const auto refuse_unless = [](cudaError_t e) {
    if (e == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    throw refusal(GSCHED_BAD_ARGUMENT,
                  "wait_stream: " + cuda::code_of(static_cast<CUresult>(e)).message());
  };
  const cuda::current_gpu here(gpu);
  const auto of = static_cast<cudaStream_t>(stream);
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  refuse_unless(cudaStreamIsCapturing(of, &capturing));
  if (capturing != cudaStreamCaptureStatusNone)
    throw refusal(GSCHED_BAD_ARGUMENT, "wait_stream: a stream that is being captured, expected one "
                                       "whose work runs");
  cudaEvent_t made = nullptr;
  refuse_unless(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
  std::shared_ptr<void> event(
      made, [](void* e) { static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(e))); });
  refuse_unless(cudaEventRecord(made, of));
  return event;
}

} // namespace gsched::abi
