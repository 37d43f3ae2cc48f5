// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace gsched::cuda {

/// Registers memory that others have allocated, such as a mapping shared with another process: the
/// GPU then copies from and to it by itself, without staging. It starts at a page and stays mapped
/// until it is unpinned. For channel::host_options::pin.
///
/// Errors   device_failed or out_of_memory, one line with CUDA's words.
/// Cost     milliseconds for each hundred megabytes; the pages are locked in memory.
/// Threads  any.
void pin_memory(int gpu, std::span<std::byte> memory);

/// Reverts pin_memory, once nothing on the GPU uses the memory. Does nothing for memory that is not
/// pinned, or after the GPU has failed.
void unpin_memory(int gpu, std::span<std::byte> memory) noexcept;

} // namespace gsched::cuda
