// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

#include <cstddef>
#include <string>

namespace gsched::cuda {

/// "net_b1: operation 3 (gemm)": an operation of a graph, for errors.
[[nodiscard]] inline std::string operation_text(const std::string& graph, std::size_t operation,
                                                const std::string& name) {
  return graph + ": operation " + std::to_string(operation) + " (" + name + ")";
}

/// The error for work that the profiler does not see, with both causes. `what` says what is missing
/// and what was expected.
[[nodiscard]] inline error unseen(const std::string& where, const std::string& what,
                                  source_location at = source_location::current()) {
  return {errc::device_failed,
          where + ": " + what +
              "; another profiler is at work, or CUPTI does not see this kind of operation",
          at};
}

} // namespace gsched::cuda
