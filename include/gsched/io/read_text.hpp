// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <istream>
#include <string>
#include <system_error>

namespace gsched {

/// Reads a stream to its end, or until it exceeds `most` bytes; the parser then reports that the
/// text is too large.
///
/// Errors   io if the stream fails; `name` names it.
[[nodiscard]] inline std::string read_text(std::istream& in, const std::string& name,
                                           std::size_t most) {
  std::string text;
  std::array<char, 65536> chunk;
  while (in && text.size() <= most) {
    in.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    text.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) throw error(errc::io, name + ": cannot be read, expected a file");
  return text;
}

/// Reads a file as above.
///
/// Errors   io, one line with what was `expected`: "a profile's file".
[[nodiscard]] inline std::string read_text(const std::filesystem::path& path,
                                           const std::string& expected, std::size_t most) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw error(errc::io, path.string() + ": is a directory, expected " + expected);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw error(errc::io, path.string() + ": cannot be opened, expected " + expected);
  return read_text(in, path.string(), most);
}

} // namespace gsched
