// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace gsched::testing {

/// Calls of the global operator new by this thread so far. Every test program counts them.
[[nodiscard]] std::size_t allocations() noexcept;

} // namespace gsched::testing
