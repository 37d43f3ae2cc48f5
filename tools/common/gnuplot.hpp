// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace common {

/// Looks for gnuplot on PATH.
[[nodiscard]] bool gnuplot_found();

/// A gnuplot string: in single quotes only the quote itself means something.
[[nodiscard]] std::string gnuplot_literal(const std::string& text);

/// The terminal for a picture of that type (.svg, .png, .pdf) and size in pixels.
[[nodiscard]] std::string gnuplot_terminal(const std::filesystem::path& picture, std::size_t width,
                                           std::size_t height);

/// Runs a script, whose output is the picture. Errors   gsched::error (io) if gnuplot fails.
void draw(const std::string& script, const std::filesystem::path& picture);

} // namespace common
