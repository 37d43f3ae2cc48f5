// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace gsched::trace {

/// Bytes of the UTF-8 character at the start of `text`; 0 if there is none (RFC 3629, section 4).
[[nodiscard]] constexpr std::size_t utf8_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = text.empty() ? 0xffu : byte(0);
  if (lead < 0x80) return 1;
  const std::size_t n = lead >= 0xc2 && lead < 0xe0   ? 2
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (n == 0 || text.size() < n) return 0;
  for (std::size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
      (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f))
    return 0;
  return n;
}

/// Writes `text` as a JSON string; bytes that are not UTF-8 become question marks.
inline void put_text(std::ostream& out, std::string_view text) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string s = "\"";
  while (!text.empty()) {
    const std::size_t n = utf8_length(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (n == 0)
      s += '?';
    else if (c == '"' || c == '\\')
      s.append("\\").append(1, text.front());
    else if (c < 0x20)
      s.append("\\u00").append(1, digits[c >> 4]).append(1, digits[c & 15]);
    else
      s.append(text.substr(0, n));
    text.remove_prefix(n == 0 ? 1 : n);
  }
  out << s << '"';
}

/// Writes microseconds with exactly three decimals.
inline void put_us(std::ostream& out, duration d) {
  const auto ns = d.count();
  const auto size = ns < 0 ? ~static_cast<std::uint64_t>(ns) + 1 : static_cast<std::uint64_t>(ns);
  out << (ns < 0 ? "-" : "") << size / 1000 << '.' << std::to_string(1000 + size % 1000).substr(1);
}

/// The shortest text that reads back as the number; 0 for infinity and NaN, which JSON lacks.
inline void put_number(std::ostream& out, double value) {
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), std::isfinite(value) ? value : 0.0).ptr;
  out << std::string_view(text.data(), static_cast<std::size_t>(end - text.data()));
}

} // namespace gsched::trace
