// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gsched_server {

/// A tensor's type. BYTES, whose elements differ in size, is none of them.
struct datatype {
  std::string_view name;
  std::uint32_t bytes; ///< of an element
  enum class kind : std::uint8_t { boolean, sint, uint, real, half } what;
};
/// Null for an unknown name.
[[nodiscard]] const datatype* find_datatype(std::string_view name) noexcept;
/// "BOOL, UINT8, ... or FP64".
[[nodiscard]] const std::string& datatype_names();

/// A tensor that a model takes or gives.
struct tensor_spec {
  std::string name;
  const datatype* type = nullptr;
  std::vector<std::int64_t> shape;

  bool operator==(const tensor_spec&) const = default;
  [[nodiscard]] std::uint64_t elements() const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept { return elements() * type->bytes; }
};
[[nodiscard]] std::uint64_t bytes_of(std::span<const tensor_spec> all) noexcept;
/// "[1,3,224,224]".
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

/// A tensor of a request, in the request's memory.
struct given_tensor {
  std::string_view name;
  std::string_view datatype;
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// The spec of a given tensor, whose type and shape are right.
/// Errors   refusal (invalid), one line that names the input.
[[nodiscard]] const tensor_spec& spec_of(const given_tensor& given,
                                         std::span<const tensor_spec> specs);
/// The bytes of each tensor of `specs`, in that order.
/// Errors   refusal (invalid): one that is missing, unknown, there twice, or of another type, shape
///          or size.
[[nodiscard]] std::vector<std::span<const std::byte>> in_order(std::span<const given_tensor> given,
                                                               std::span<const tensor_spec> specs);

} // namespace gsched_server
