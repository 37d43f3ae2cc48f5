// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace gsched::cuda {
class device;
}

namespace gsched::abi {

/// What CUDA says of an event that a request waits for.
struct event_answer {
  enum class kind : std::uint8_t { complete, pending, failed };
  kind what = kind::complete;
  int code = 0; ///< of CUDA, if it failed
};

/// CUDA's events as a server meets them, by their handles; on its thread.
struct event_source {
  /// Asks for an event once; neither waits nor throws.
  std::function<event_answer(void* event)> query;
  /// Records an event so that it completes at once, even while lanes hold work: CUDA's code, 0 if
  /// it could. Does not throw, and waits at most as other calls of the driver do.
  std::function<int(void* event)> record;
  /// CUDA's words for a code.
  std::function<std::string(int code)> words;
};

/// Those of a device's GPU, for as long as the device stays in place.
[[nodiscard]] event_source cuda_events(cuda::device& of);

/// An event that completes when all that has been submitted to a stream of the GPU has; its last
/// owner destroys it, on any thread.
/// Errors   refusal for a stream that CUDA refuses, or that is being captured.
[[nodiscard]] std::shared_ptr<void> mark_stream(int gpu, void* stream);

} // namespace gsched::abi
