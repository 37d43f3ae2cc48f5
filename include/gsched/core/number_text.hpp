// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <string>

namespace gsched {

/// A number for messages: at most ten significant digits and no trailing zeros. 1e+300 takes six
/// characters, where std::to_string writes 301 digits.
[[nodiscard]] inline std::string number_text(double n) {
  constexpr int digits = 10;
  char text[32]; // sign, digits, point, and up to four leading zeros or an exponent
  return {text, std::to_chars(text, text + sizeof text, n, std::chars_format::general, digits).ptr};
}

} // namespace gsched
