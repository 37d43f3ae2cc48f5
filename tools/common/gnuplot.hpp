// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace common {

/// How a policy, mode or planner looks in every plot (plot_styles.def).
struct plot_style {
  std::string name;
  std::uint32_t colour = 0; ///< 0xRRGGBB
};

/// A key without a style looks like its part before the first ':', ',' or '+', with the rest in its
/// name; a key that no style fits is grey.
[[nodiscard]] plot_style style_of(std::string_view key);

/// The colour of a tone of plot_styles.def. The tone exists (asserted).
[[nodiscard]] std::uint32_t tone(std::string_view key);

/// A colour for what is neither policy, mode nor planner, by its place in the plot; eight differ.
[[nodiscard]] std::uint32_t series_colour(std::size_t place);

/// Half way to white.
[[nodiscard]] std::uint32_t light(std::uint32_t colour);

/// As gnuplot takes it after `lc rgb`, with its quotes.
[[nodiscard]] std::string rgb(std::uint32_t colour);

/// Looks for gnuplot on PATH.
[[nodiscard]] bool gnuplot_found();

/// A gnuplot string: in single quotes only the quote itself means something.
[[nodiscard]] std::string gnuplot_literal(const std::string& text);

/// The terminal for a picture of that type (.svg, .png, .pdf) and size in pixels.
[[nodiscard]] std::string gnuplot_terminal(const std::filesystem::path& picture, std::size_t width,
                                           std::size_t height);

/// The settings that all plots begin with: the terminal, border and grid.
[[nodiscard]] std::string gnuplot_preamble(const std::filesystem::path& picture, std::size_t width,
                                           std::size_t height);

/// An expression for the text of a value: three digits, all of them from 1000 on.
[[nodiscard]] std::string gnuplot_text(std::string_view value);

/// Labels of a logarithmic y axis: powers of ten, and twice and five times those where these are
/// few.
[[nodiscard]] std::string gnuplot_log_ytics(double least, double most);

/// Runs a script, whose output is the picture.
/// Errors   gsched::error (io) if gnuplot fails.
void draw(const std::string& script, const std::filesystem::path& picture);

} // namespace common
