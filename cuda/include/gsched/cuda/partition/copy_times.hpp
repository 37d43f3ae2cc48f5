// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/serving/copy_times.hpp>

#include <chrono>

namespace gsched::cuda {

/// Measures copies between pinned memory and a GPU: medians of a few, of 64 bytes and of 8 MiB.
///
/// Differs  batches of other partitions that copy at the same time share the link, so copies then
///          take longer than this.
/// Errors   those of find_gpu; device_failed, out_of_memory, one line; device_failed if the copies
///          do not end within `watchdog`, or if a kernel hangs.
/// Cost     set-up: milliseconds; 8 MiB of pinned and of device memory meanwhile.
/// Threads  any.
[[nodiscard]] copy_times measure_copies(int gpu, duration watchdog = std::chrono::seconds{10});

} // namespace gsched::cuda
