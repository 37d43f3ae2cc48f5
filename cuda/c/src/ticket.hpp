// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/gsched_c.h>

#include <gsched/cuda/action.hpp>
#include <gsched/cuda/memory_kind.hpp>
#include <gsched/server/request_record.hpp>

#include <cstdint>
#include <vector>

namespace gsched::abi {

using cuda::memory_kind;

/// A copy that a request asks for: the instance's memory is known when the request starts.
struct transfer {
  std::uint32_t buffer = 0; ///< which input or output of the model
  void* outside = nullptr;  ///< host or device memory of the caller
  memory_kind kind = memory_kind::pageable;
  cuda::copy_action action{nullptr, nullptr}; ///< in place until the copy has ended
};

} // namespace gsched::abi

/// A request of the C library, with its copies.
struct gsched_ticket : gsched::request_record {
  using gsched::request_record::request_record;
  std::vector<gsched::abi::transfer> inputs;
  std::vector<gsched::abi::transfer> outputs;
};

namespace gsched::abi {

using ticket = ::gsched_ticket;

// request_status and gsched_state have the same numbers.
static_assert(static_cast<int>(request_status::pending) == GSCHED_PENDING);
static_assert(static_cast<int>(request_status::finished) == GSCHED_FINISHED);
static_assert(static_cast<int>(request_status::failed) == GSCHED_FAILED);
static_assert(static_cast<int>(request_status::rejected) == GSCHED_REJECTED);
static_assert(static_cast<int>(request_status::cancelled) == GSCHED_CANCELLED);

} // namespace gsched::abi
