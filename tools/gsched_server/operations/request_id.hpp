// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace gsched_server {

/// The name of a request in logs, which its client may choose: the header or metadata of this name,
/// or the protocol's id.
inline constexpr const char* request_id_header = "x-request-id";

/// Whether a client's id can stand in a header: 1 to 128 printable characters of ASCII.
[[nodiscard]] constexpr bool is_request_id(std::string_view id) noexcept {
  if (id.empty() || id.size() > 128) return false;
  for (const char c : id)
    if (c < 0x21 || c > 0x7e) return false;
  return true;
}

/// 16 hexadecimal digits that no other request of this process has, and of another one hardly any.
///
/// Threads  any.
[[nodiscard]] std::string make_request_id();

} // namespace gsched_server
