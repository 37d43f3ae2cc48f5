// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gsched::cuda {

/// What kind of memory an address is in.
enum class memory_kind : std::uint8_t { pageable, pinned, device };

/// As the driver knows it; pageable if it does not know it. Managed memory counts as device memory.
///
/// Cost     one call of the driver.
/// Threads  any.
[[nodiscard]] memory_kind kind_of_memory(const void* p) noexcept;

/// The begin of the allocation that an address of pinned or device memory is in; 0: not known.
///
/// Cost     one call of the driver.
/// Threads  any.
[[nodiscard]] std::uintptr_t allocation_of_memory(const void* p) noexcept;

} // namespace gsched::cuda
