// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace gsched {

/// Several names joined into one at compile time, for the names of combinators.
template <const std::string_view*... Parts> // no references: nvcc passes those on as pointers
class joined_name {
  static constexpr auto chars = [] {
    std::array<char, (Parts->size() + ... + 0)> out{};
    std::size_t at = 0;
    const auto append = [&](std::string_view part) {
      for (const char c : part) out[at++] = c;
    };
    (append(*Parts), ...);
    return out;
  }();

public:
  static constexpr std::string_view value{chars.data(), chars.size()};
};

} // namespace gsched
