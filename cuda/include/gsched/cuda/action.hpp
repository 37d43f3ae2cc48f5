// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/operation.hpp>

#include <cstddef>

namespace gsched::cuda {

/// The target of operation::handle for device work on a CUDA device. The object must stay in place
/// until the device has polled the end of the operation's segment.
struct action {
  enum class kind : unsigned char {
    node, ///< an operation of a cuda::program; programs create these
    copy,
    set
  };
  kind what = kind::copy;
};

/// A copy. Host memory may be pinned or pageable.
///
/// A copy of pageable memory blocks the host while it runs, and it starts only after the host has
/// seen the end of all earlier work of the lane. The pointers define the kind of copy; the
/// direction passed to as_operation is not checked against them.
struct copy_action : action {
  copy_action(void* destination, const void* source) noexcept
      : action{kind::copy}, to(destination), from(source) {}
  void* to;
  const void* from;

  [[nodiscard]] operation as_operation(copy_direction direction, std::size_t bytes,
                                       duration expected = {}) const noexcept {
    operation op;
    op.kind = operation_kind::memcpy;
    op.direction = direction;
    op.bytes = byte_count{bytes};
    op.expected = expected;
    op.handle = static_cast<const action*>(this);
    return op;
  }
};

/// Sets `bytes` bytes of device memory to one value.
struct set_action : action {
  set_action(void* where, int byte) noexcept : action{kind::set}, to(where), value(byte) {}
  void* to;
  int value;

  [[nodiscard]] operation as_operation(std::size_t bytes, duration expected = {}) const noexcept {
    operation op;
    op.kind = operation_kind::memset;
    op.bytes = byte_count{bytes};
    op.expected = expected;
    op.handle = static_cast<const action*>(this);
    return op;
  }
};

} // namespace gsched::cuda
