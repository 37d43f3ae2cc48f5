// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "idempotence/network.hpp"

#include <vector>

namespace idempotence {

/// The built-in network's kernels run by the CPU, each access recorded.
[[nodiscard]] finding trace_on_host(const options& o);

/// Traced by address, and captured and judged by its arguments; with --check, also run twice.
[[nodiscard]] std::vector<finding> look_on_gpu(const options& o);

} // namespace idempotence
