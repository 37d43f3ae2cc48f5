// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/program.hpp>
#include <gsched/preempt/access.hpp>

namespace gsched::cuda {

/// Options of accesses_of.
struct graph_access_options {
  /// A kernel does not write through a parameter that is a pointer to const in its mangled name.
  /// Turn this off for kernels that cast const away.
  bool trust_const = true;
};

/// An upper bound of the memory accesses of each operation of a captured graph, derived from the
/// kernels' arguments without running them.
///
/// Copies and sets are exact. A kernel is assumed to read and write the whole of every allocation
/// that an 8-byte word of its arguments points into (aligned words, including those of structs);
/// such operations are `assumed`. A kernel that takes a pointer to pointers, or that writes no
/// known allocation, has effects that cannot be derived, and is declared to clobber.
///
/// Not covered: addresses that a kernel loads from memory, from __device__ variables or from
/// textures, and accesses outside of the allocation that a pointer refers to. An allocation is what
/// the driver reports as one: a whole segment of a framework's pool, so that adjacent tensors count
/// as one, or a whole reserved range of mapped memory.
///
/// Differs  unlike an address trace, it is conservative: what it calls idempotent is idempotent,
///          within the limits above, but most of what it calls clobbering is not.
/// Errors   device_failed with CUDA's message.
/// Cost     one call of the driver for each word that is not 0 and not known yet.
[[nodiscard]] access_trace accesses_of(const program& p, const graph_access_options& how = {});

} // namespace gsched::cuda
