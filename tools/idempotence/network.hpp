// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "idempotence/options.hpp"

#include <gsched/preempt/access.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace idempotence {

/// What was found out about the operations of one program in one way.
struct finding {
  std::string how; ///< "traced", "arguments", or a file's name
  gsched::access_trace trace{};
  /// Operations that changed memory when they were run twice, and where first.
  std::map<std::size_t, gsched::byte_range> changed{};
  bool checked = false; ///< whether any was run twice
};

/// The built-in network, traced on the host or, in both ways, on a GPU.
/// Errors   bad_option, one line, in a build without CUDA.
[[nodiscard]] std::vector<finding> look_at_network(const options& o);

} // namespace idempotence
