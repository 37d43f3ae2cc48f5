// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <string>

namespace gsched {

/// A number as lines for people have it: ten significant digits at most, and no zeros behind them.
/// 1e+300 is those six characters, where std::to_string makes 301 digits of it.
[[nodiscard]] inline std::string number_text(double n) {
  constexpr int digits = 10;
  char text[32]; // a sign, the digits, a point, up to four zeros before them or an exponent
  return {text, std::to_chars(text, text + sizeof text, n, std::chars_format::general, digits).ptr};
}

} // namespace gsched
