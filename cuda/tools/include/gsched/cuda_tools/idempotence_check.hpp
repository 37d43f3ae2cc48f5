// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/program.hpp>
#include <gsched/preempt/access.hpp>

#include <cstddef>
#include <optional>
#include <string>

namespace gsched::cuda {

/// An operation whose second run changed memory.
struct second_run_difference {
  std::size_t operation = 0;
  std::string name{};
  byte_range range{}; ///< the first run of differing 4-byte words
};

/// Debugging: runs a program, and runs each operation that `what` declares idempotent a second time
/// right after the first. The second run of an idempotent operation changes nothing.
///
/// The memory that `what` says an operation writes is copied before and compared after the second
/// run. It is restored if it differs, so that the program has run once in the end. Returns the
/// first difference, if any.
///
/// The check cannot find a clobber that does not show with these values (adding zero), or that
/// needs a run that was stopped half-way. A kernel whose result depends on random numbers, or on
/// the order of its atomics, is reported too.
///
/// `what` has one entry for each operation of the program, such as accesses_of(p) with the
/// declarations to check.
///
/// Differs  launches directly, one operation at a time: for debugging only. Host functions of the
///          graph do not run.
/// Errors   bad_option for another number of operations; device_failed with CUDA's message, also if
///          the copies do not fit into the free memory. Waits for a kernel that never ends.
/// Threads  one. Nothing else may use that memory meanwhile.
[[nodiscard]] std::optional<second_run_difference> find_clobber(const program& p,
                                                                const access_trace& what);

/// As find_clobber; a difference is an error.
/// Errors   also bad_option, one line: "graph NAME: operation 3, KERNEL, is declared idempotent but
///          its second run changed bytes 0x7f0000 to 0x7f0010, expected none to".
void check_idempotent(const program& p, const access_trace& what);

/// Checks all kernels of a program, on the allocations that their arguments point into. For one
/// kernel, use make_call.
void check_idempotent(const program& p);

} // namespace gsched::cuda
