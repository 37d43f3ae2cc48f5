// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace gsched::cuda {

/// Streams of this process that were abandoned because a kernel on them does not end. They are
/// never destroyed.
///
/// While a kernel hangs, the driver may wait for it when a stream or an executable graph is made
/// (`gsched.gpu.standing --parts growth`), and then blocks other calls. The library therefore makes
/// none.
///
/// Threads  any.

/// Records a stream of GPU `gpu`. Does not allocate; streams beyond 64 are not recorded.
void abandon_stream(int gpu, cudaStream_t stream) noexcept;

/// Whether a kernel on such a stream of the GPU still runs.
/// Cost     one load if no stream was abandoned; else one query for each.
[[nodiscard]] bool hangs(int gpu) noexcept;

/// Errors   device_failed if hangs(gpu). The line begins with `what`.
void expect_no_hang(int gpu, const std::string& what);

} // namespace gsched::cuda
