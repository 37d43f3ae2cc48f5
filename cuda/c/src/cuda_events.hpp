// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/server/events.hpp>

#include <memory>

namespace gsched::cuda {
class device;
}

namespace gsched::abi {

/// CUDA events of a device's GPU, for as long as the device stays in place.
[[nodiscard]] event_source cuda_events(cuda::device& of);

/// CUDA events of a GPU; they are recorded on a stream of the source's own.
[[nodiscard]] event_source cuda_events(int gpu);

/// An event that completes when all that has been submitted to a stream of the GPU has; its last
/// owner destroys it, on any thread.
/// Errors   refusal for a stream that CUDA refuses, or that is being captured.
[[nodiscard]] std::shared_ptr<void> mark_stream(int gpu, void* stream);

} // namespace gsched::abi
