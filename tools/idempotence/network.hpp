// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "idempotence/options.hpp"

#include <gsched/preempt/access.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace idempotence {

/// The memory accesses of the operations of one program, found in one way.
struct finding {
  std::string how; ///< "traced", "arguments", or a file's name
  gsched::access_trace trace{};
  /// Operations whose second run changed memory, with the first range that it changed.
  std::map<std::size_t, gsched::byte_range> changed{};
  bool checked = false; ///< operations were run twice
};

/// The built-in network, traced on the host or, in both ways, on a GPU.
/// Errors   bad_option, one line, in a build without CUDA.
[[nodiscard]] std::vector<finding> trace_network(const options& o);

} // namespace idempotence
