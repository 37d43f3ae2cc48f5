// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/operation.hpp>
#include <gsched/preempt/access_set.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gsched {

/// What the user says of an operation. It counts more than what its accesses say.
enum class declared : std::uint8_t {
  nothing,
  idempotent, ///< may be killed and run again by itself
  clobbers,   ///< may not run again, for whatever reason
  saves       ///< where a kernel's blocks leave they have saved what they have done, or written
              ///< nothing yet; whether it may be killed is for its accesses to say
};

/// What one operation of a program does to memory.
struct operation_access {
  operation_kind kind = operation_kind::kernel;
  std::string name{}; ///< for people
  access_set reads{};
  access_set writes{};
  /// Written before anything reads it in this operation; of the rest, reads count as the first
  /// access where an operation both reads and writes. Bytes here count as written as well.
  access_set writes_first{};
  /// Nobody saw these accesses: the operation makes no other, but may not make all of them.
  bool assumed = false;
  declared says = declared::nothing;

  bool operator==(const operation_access&) const noexcept = default;
};

/// The operations of one run of a program, in the order in which they run.
struct access_trace {
  std::string model{};
  std::vector<operation_access> operations{};
  bool operator==(const access_trace&) const noexcept = default;
};

} // namespace gsched
