// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "idempotence/cuda/network.cuh"

#include <gsched/preempt/access.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace idempotence {

template <class T>
struct as_traced {
  using type = T;
};
template <class T>
struct as_traced<T*> {
  using type = gsched::cuda::traced_ptr<T>;
};

[[nodiscard]] inline gsched::access_set bytes_at(const void* p, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uint64_t>(p);
  return gsched::access_set({{first, first + bytes}});
}

[[nodiscard]] inline gsched::operation_access copied(const char* name, void* to, const void* from,
                                                     std::size_t bytes) {
  gsched::operation_access o;
  o.kind = gsched::operation_kind::memcpy;
  o.name = name;
  o.reads = bytes_at(from, bytes);
  o.writes = bytes_at(to, bytes);
  return o;
}

[[nodiscard]] inline gsched::operation_access cleared(const char* name, void* at,
                                                      std::size_t bytes) {
  gsched::operation_access o;
  o.kind = gsched::operation_kind::memset;
  o.name = name;
  o.writes = bytes_at(at, bytes);
  return o;
}

/// The same small numbers wherever it runs.
[[nodiscard]] inline float first_value(std::size_t buffer, int i) {
  return static_cast<float>((static_cast<int>(buffer) * 31 + i * 37) % 101 - 50) / 200.0f;
}

[[nodiscard]] inline std::string model_name(bool reuse) {
  return reuse ? "network whose buffers share memory" : "network";
}

} // namespace idempotence
