// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "idempotence/network.hpp"

#include <vector>

namespace idempotence {

/// The kernels of the built-in network run by the CPU, with each access recorded.
[[nodiscard]] finding trace_on_host(const options& o);

/// Traced by address, and captured and analysed by its arguments; with --check, also run twice.
[[nodiscard]] std::vector<finding> trace_on_gpu(const options& o);

} // namespace idempotence
