// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace gsched::cuda {

/// Keeps that many values alive at once: the loads precede the stores, and neither can be moved. A
/// kernel gets registers for its most demanding code, so a call that never runs allocates them.
template <std::size_t... Is>
__device__ __forceinline__ void hold_registers(std::uint32_t* at, std::index_sequence<Is...>) {
  std::uint32_t value[sizeof...(Is)];
  (..., [&] {
    asm volatile("ld.volatile.global.u32 %0, [%1+%2];"
                 : "=r"(value[Is])
                 : "l"(at), "n"(4 * Is)
                 : "memory");
  }());
  (..., [&] {
    asm volatile("st.volatile.global.u32 [%0+%1], %2;" ::"l"(at), "n"(4 * (sizeof...(Is) + Is)),
                 "r"(value[Is])
                 : "memory");
  }());
}

} // namespace gsched::cuda
