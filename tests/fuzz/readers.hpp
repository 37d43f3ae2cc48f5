// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

/// What the fuzz targets of readers have in common.
namespace gsched::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

/// A refusal is one line that says where, what, and what was expected.
inline void require_one_line(const error& e, std::string_view where) {
  const std::string_view line = e.what();
  require(line.starts_with(where) && line.find(", expected ") != std::string_view::npos);
  for (const char c : line) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}

/// Any bytes either are refused in one line, or read as a value that survives writing and reading.
/// `write(stream, value)`; `check(value)` looks at what else holds.
template <class Read, class Write, class Check>
void survives(const std::uint8_t* data, std::size_t size, Read read, Write write, Check check) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto written = [&](const auto& value) {
    std::ostringstream out;
    write(out, value);
    return out.str();
  };
  try {
    const auto value = read(text, "input");
    const std::string once = written(value);
    const auto again = read(once, "written");
    require(again == value);
    require(written(again) == once);
    check(value);
  } catch (const error& e) {
    require_one_line(e, "input: ");
  }
}

} // namespace gsched::fuzz
