// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/program.hpp>
#include <gsched/preempt/access.hpp>

#include <cstddef>
#include <optional>
#include <string>

namespace gsched::cuda {

/// An operation that changed memory when it was run once more.
struct second_run_difference {
  std::size_t operation = 0;
  std::string name{};
  byte_range range{}; ///< the first 4-byte words in a row that differ
};

/// A debug mode: runs a program once, and each operation that `what` declares idempotent a second
/// time, at once, on what the first time has left; for an idempotent one that changes nothing. What
/// `what` says it writes is copied before and compared after the second run, and put back if it
/// differs, so in the end the program has run once. None: nothing differed.
///
/// What it cannot find: a clobber that these values do not show, such as adding zero, and one that
/// only a run that was killed half-way would show. A kernel whose result depends on chance, or on
/// the order of its atomics, differs as well.
///
/// `what` has the operations of the program, such as accesses_of(p), with those declared that are
/// to be checked; or with writes that the caller knows better. Differs  launches directly, and one
/// operation at a time: for debugging alone. Host functions of the
///          graph do not run.
/// Errors   bad_option if there are not as many operations; device_failed with CUDA's words, also
///          where the copies do not fit into the memory left. A kernel that never ends is waited
///          for.
/// Threads  one. Nothing else may use that memory meanwhile.
[[nodiscard]] std::optional<second_run_difference> find_clobber(const program& p,
                                                                const access_trace& what);

/// As find_clobber; a difference is an error.
/// Errors   also bad_option, one line: "graph NAME: operation 3, KERNEL, is declared idempotent but
///          its second run changed bytes 0x7f0000 to 0x7f0010, expected none to".
void check_idempotent(const program& p, const access_trace& what);

/// Of all kernels of a program, on the allocations that their arguments point into. With make_call,
/// of one kernel.
void check_idempotent(const program& p);

} // namespace gsched::cuda
