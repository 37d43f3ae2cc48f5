// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace gsched {

/// Several names as one, at compile time: how a combinator names itself.
template <const std::string_view*... Parts> // not references: nvcc hands those on as pointers
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
