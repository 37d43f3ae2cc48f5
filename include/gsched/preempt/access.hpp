// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/operation.hpp>
#include <gsched/preempt/access_set.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gsched {

/// The user's declaration about an operation. It overrides the recorded accesses.
enum class declared : std::uint8_t {
  nothing,
  idempotent, ///< may be killed, and run again by itself
  clobbers,   ///< must not run again
  /// a kernel whose blocks, when they exit early, have saved their results or written nothing; its
  /// accesses decide whether it may be killed
  saves
};

/// The memory accesses of one operation of a program.
struct operation_access {
  operation_kind kind = operation_kind::kernel;
  std::string name{}; ///< for messages
  access_set reads{};
  access_set writes{};
  /// Bytes that the operation writes before it reads them. If an operation both reads and writes
  /// any other byte, the read counts as first. These bytes count as written too.
  access_set writes_first{};
  /// The accesses were not recorded: the operation makes no others, but may not make all of them.
  bool assumed = false;
  declared says = declared::nothing;

  bool operator==(const operation_access&) const noexcept = default;
};

/// The operations of one run of a program, in execution order.
struct access_trace {
  std::string model{};
  std::vector<operation_access> operations{};
  bool operator==(const access_trace&) const noexcept = default;
};

} // namespace gsched
