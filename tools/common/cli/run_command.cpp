// SPDX-License-Identifier: Apache-2.0
#include "common/cli/run_command.hpp"

#include "common/cli/option_values.hpp"
#include "common/cli/run_error.hpp"

#include <fmt/format.h>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

namespace common {

namespace {

int status_of(std::string command, int errors) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  std::string shell = "sh", read = "-c";
  char* const arguments[] = {shell.data(), read.data(), command.data(), nullptr};
  pid_t child = 0;
  const int failed = posix_spawn(&child, "/bin/sh", &files, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  int status = 0;
  if (failed != 0) return -1;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace

void run_command(std::string_view option, const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> errors(std::tmpfile(), &std::fclose);
  if (!errors)
    throw run_error(gsched::errc::io, fmt::format("{}: no room for a file, expected some", option));
  const int status = status_of(command, fileno(errors.get()));
  std::string errors_text;
  std::array<char, 4096> part;
  std::rewind(errors.get());
  while (const std::size_t n = std::fread(part.data(), 1, part.size(), errors.get()))
    errors_text.append(part.data(), n);
  if (status == 0) {
    std::fwrite(errors_text.data(), 1, errors_text.size(), stderr);
    return;
  }
  const std::string first =
      errors_text.substr(0, std::min(errors_text.find('\n'), errors_text.size()));
  throw run_error(gsched::errc::io,
                  fmt::format("{} {}: status {}{}, expected 0", option, in_quotes(command), status,
                              first.empty() ? "" : ", " + in_quotes(first)));
}

} // namespace common
