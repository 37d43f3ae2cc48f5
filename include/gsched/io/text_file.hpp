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

namespace gsched::detail {

/// All that a stream holds, but no more than `most` bytes and a chunk: whoever parses it says that
/// it is too large.
/// Errors   io if the stream fails; `name` stands for it.
[[nodiscard]] inline std::string whole_text(std::istream& in, const std::string& name,
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

/// Errors   io, one line that says what was `expected`: "a profile's file".
[[nodiscard]] inline std::string whole_text(const std::filesystem::path& path,
                                            const std::string& expected, std::size_t most) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw error(errc::io, path.string() + ": is a directory, expected " + expected);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw error(errc::io, path.string() + ": cannot be opened, expected " + expected);
  return whole_text(in, path.string(), most);
}

} // namespace gsched::detail
