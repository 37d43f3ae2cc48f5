// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace gsched_server::wire {

// Fields of serialised messages of Protocol Buffers, for the few small ones that need no generated
// classes. What is zero or empty is left out, as the format has it.

inline void put_varint(std::string& to, std::uint64_t n) {
  for (; n >= 0x80; n >>= 7) to += static_cast<char>(0x80 | (n & 0x7f));
  to += static_cast<char>(n);
}
inline void put_number(std::string& to, unsigned field, std::uint64_t n) {
  if (n == 0) return;
  put_varint(to, field << 3);
  put_varint(to, n);
}
inline void put_double(std::string& to, unsigned field, double value) {
  if (value == 0) return;
  put_varint(to, field << 3 | 1);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (unsigned byte = 0; byte < 8; ++byte) to += static_cast<char>(bits >> (8 * byte) & 0xff);
}
inline void put_bytes(std::string& to, unsigned field, std::string_view bytes) {
  put_varint(to, field << 3 | 2);
  put_varint(to, bytes.size());
  to += bytes;
}

} // namespace gsched_server::wire
