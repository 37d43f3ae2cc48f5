// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

/// Aliases of the atomics, so that a model checker or an instrumented type can replace them.
namespace gsched::sync {

template <class T>
using atomic = std::atomic<T>;
template <class T>
using atomic_ref = std::atomic_ref<T>;

inline constexpr std::memory_order relaxed = std::memory_order_relaxed;
inline constexpr std::memory_order acquire = std::memory_order_acquire;
inline constexpr std::memory_order release = std::memory_order_release;
inline constexpr std::memory_order acq_rel = std::memory_order_acq_rel;
inline constexpr std::memory_order seq_cst = std::memory_order_seq_cst;

/// The distance in bytes between data that different threads write, to avoid false sharing.
inline constexpr std::size_t cache_line = 64;

} // namespace gsched::sync
