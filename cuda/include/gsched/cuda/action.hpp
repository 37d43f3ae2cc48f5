// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/operation.hpp>

#include <cstddef>

namespace gsched::cuda {

/// What operation::handle of device work points to on a CUDA device. It stays in place until the
/// operation's segment was polled.
struct action {
  enum class kind : unsigned char {
    node, ///< of a cuda::program: programs make these themselves
    copy,
    set
  };
  kind what = kind::copy;
};

/// A copy: host memory may be pinned or pageable. For pageable memory the host pays while it is
/// copied, and the copy starts when the host has seen all before it end. The pointers say what kind
/// of copy it is; that the direction fits is not asked for.
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

/// Sets bytes of device memory to one value.
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
