// SPDX-License-Identifier: Apache-2.0
#include "common/gnuplot.hpp"

#include "common/cli/run_error.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <utility>

namespace common {

namespace {

struct style_row {
  std::string_view key, name, colour;
};
constexpr std::array styles{
#define PLOT_STYLE(key, name, colour, point) style_row{key, name, colour},
#define PLOT_TONE(key, colour)
#include "common/plot_styles.def"
#undef PLOT_STYLE
#undef PLOT_TONE
};
constexpr std::array tones{
#define PLOT_STYLE(key, name, colour, point)
#define PLOT_TONE(key, colour) style_row{key, {}, colour},
#include "common/plot_styles.def"
#undef PLOT_STYLE
#undef PLOT_TONE
};

/// "#RRGGBB".
std::uint32_t number_of(std::string_view colour) {
  std::uint32_t n = 0;
  std::from_chars(colour.data() + 1, colour.data() + colour.size(), n, 16);
  return n;
}

} // namespace

plot_style style_of(std::string_view key) {
  const std::string_view base = key.substr(0, key.find_first_of(":,+"));
  for (const std::string_view wanted : {key, base})
    for (const style_row& s : styles)
      if (s.key == wanted)
        return {std::string(s.name) + std::string(key.substr(wanted.size())), number_of(s.colour)};
  return {std::string(key), tone("muted")};
}

std::uint32_t tone(std::string_view key) {
  for (const style_row& t : tones)
    if (t.key == key) return number_of(t.colour);
  assert(false);
  return 0;
}

std::uint32_t series_colour(std::size_t place) {
  return tone("series " + std::to_string(place % 8));
}

std::uint32_t light(std::uint32_t colour) { return (colour & 0xFEFEFE) / 2 + 0x808080; }

std::string rgb(std::uint32_t colour) { return fmt::format("'#{:06X}'", colour); }

std::string gnuplot_literal(const std::string& text) {
  std::string s = "'";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20)
      s += ' ';
    else
      s.append(c == '\'' ? 2 : 1, c);
  }
  return s + "'";
}

std::string gnuplot_terminal(const std::filesystem::path& picture, std::size_t width,
                             std::size_t height) {
  const std::string type = picture.extension().string();
  if (type == ".png") return fmt::format("pngcairo size {},{} font 'Sans,11'", width, height);
  if (type == ".pdf")
    return fmt::format("pdfcairo size {}in,{}in font 'Sans,10'", static_cast<double>(width) / 90,
                       static_cast<double>(height) / 90);
  return fmt::format("svg size {},{} font 'Helvetica,Arial,sans-serif,12' background 'white'",
                     width, height);
}

std::string gnuplot_preamble(const std::filesystem::path& picture, std::size_t width,
                             std::size_t height) {
  return fmt::format(
      "set terminal {} noenhanced\nset border 3 lc rgb {}\n"
      "set grid ytics lt 1 dt 1 lc rgb {} lw 1\nset xtics nomirror\nset ytics nomirror\n",
      gnuplot_terminal(picture, width, height), rgb(tone("axis")), rgb(tone("grid")));
}

std::string gnuplot_text(std::string_view value) {
  return fmt::format("({0}<1000 ? sprintf('%.3g',{0}) : sprintf('%.0f',{0}))", value);
}

std::string gnuplot_log_ytics(double least, double most) {
  std::string s = "set ytics (";
  const char* separator = "";
  for (double power = std::pow(10, std::floor(std::log10(least))); power <= most; power *= 10)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double at = factor * power;
      if (at < least || at > most || (factor != 1 && most / least > 150)) continue;
      s += fmt::format("{}'{:g}' {:g}", std::exchange(separator, ","), at, at);
    }
  return s + ")\n";
}

bool gnuplot_found() {
  const char* const path = std::getenv("PATH");
  std::istringstream places(path ? path : "");
  for (std::string place; std::getline(places, place, ':');)
    if (!place.empty() && access((place + "/gnuplot").c_str(), X_OK) == 0) return true;
  return false;
}

void draw(const std::string& text, const std::filesystem::path& picture) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> input(std::tmpfile(), &std::fclose);
  const auto fail = [&](const char* what) {
    throw run_error(gsched::errc::io, picture.string() + ": " + what + ", expected a plot");
  };
  if (!input || std::fwrite(text.data(), 1, text.size(), input.get()) != text.size() ||
      std::fflush(input.get()) != 0)
    fail("no room for gnuplot's script");
  std::rewind(input.get());

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, fileno(input.get()), STDIN_FILENO);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, picture.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string program = "gnuplot";
  char* const arguments[] = {program.data(), nullptr};
  pid_t child = 0;
  const int failed = posix_spawnp(&child, "gnuplot", &files, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) fail("gnuplot cannot be started");
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("gnuplot was lost");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("gnuplot failed");
}

} // namespace common
