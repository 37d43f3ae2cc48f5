// SPDX-License-Identifier: Apache-2.0
#include "common/gnuplot.hpp"

#include "common/run_error.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

namespace common {

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
