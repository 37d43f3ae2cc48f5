// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/program.hpp>
#include <gsched/preempt/access.hpp>

namespace gsched::cuda {

struct graph_access_options {
  /// What a kernel takes a pointer to const for it does not write, if its mangled name says so. Off
  /// for kernels that cast it away.
  bool trust_const = true;
};

/// What each operation of a captured graph may access at most, without running it, for kernels of
/// which nothing is known but their arguments.
///
/// Copies and sets are exact. A kernel is taken to read and write the whole of every allocation
/// that an 8-byte word of its arguments points into, at 8-byte steps of its parameters, structs
/// included; such operations are `assumed`. A kernel that takes a pointer to pointers, or is seen
/// to write nowhere, does what nothing here can see, and is declared to clobber.
///
/// What is not seen: addresses that a kernel finds in memory of its structs' making, in __device__
/// variables and textures, or before and behind the allocation that it was given a pointer into.
/// An allocation is what the driver knows as one: of a framework's pool it is a whole segment, so
/// that tensors side by side count as one; of memory mapped into a reserved range, all the range.
///
/// Differs  from an address trace it forgives nothing: what it calls idempotent is, within the
/// limits
///          above, but most of what it calls clobbering is not.
/// Errors   device_failed with CUDA's words.
/// Cost     a call of the driver for each word that is not 0 and not known yet.
[[nodiscard]] access_trace accesses_of(const program& p, const graph_access_options& how = {});

} // namespace gsched::cuda
