// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace gsched::cuda {

/// Streams of this process that were given up, as a kernel on them does not end. They are never
/// destroyed.
///
/// While a kernel hangs, the driver may wait for it whenever a stream or a graph executable is made
/// (`gsched.gpu.standing --parts growth`), and other calls with it. So none is made then.
///
/// Threads  any.

/// `stream` is of GPU `gpu`. Does not allocate; of more than 64 streams the rest is not known.
void give_up_stream(int gpu, cudaStream_t stream) noexcept;

/// Whether a kernel on such a stream of the GPU still runs. Cost  where none was given up, a load;
/// else a query for each.
[[nodiscard]] bool hangs(int gpu) noexcept;

/// Errors   device_failed, if hangs(gpu). Its line begins with `what`.
void expect_no_hang(int gpu, const std::string& what);

} // namespace gsched::cuda
