// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "experiment.hpp"

#include <gsched/core/error.hpp>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

extern char** environ;

namespace experiment {

/// A child process with a pipe to its standard input and one from its output. Killed by the
/// destructor if it still runs.
class process {
public:
  /// A variable without a value is removed from the child's environment.
  using variables = std::vector<std::pair<std::string, std::string>>;

  /// Throws gsched::error if it cannot be started.
  process(const std::vector<std::string>& command, const variables& environment) {
    int input[2];
    int output[2];
    if (::pipe2(input, O_CLOEXEC) != 0) fail("pipe", errno);
    if (::pipe2(output, O_CLOEXEC) != 0) fail("pipe", errno);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, input[0], 0);
    posix_spawn_file_actions_adddup2(&files, output[1], 1);
    std::vector<std::string> words = command;
    std::vector<std::string> settings = joined(environment);
    const int bad = ::posix_spawn(&id_, words.front().c_str(), &files, nullptr,
                                  pointers(words).data(), pointers(settings).data());
    posix_spawn_file_actions_destroy(&files);
    ::close(input[0]);
    ::close(output[1]);
    to_ = input[1];
    from_ = output[0];
    if (bad == 0) return;
    ::close(to_);
    ::close(from_);
    fail(words.front(), bad);
  }
  ~process() {
    close_input();
    if (id_ > 0) wait(0);
    ::close(from_);
  }
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  /// Reads its output until it ends, or until the end of a line if lines are requested; false if
  /// that takes longer.
  [[nodiscard]] bool read(std::string& into, double seconds, bool one_line = false) {
    const double until = seconds_now() + seconds;
    for (;;) {
      const double left = until - seconds_now();
      if (left <= 0) return false;
      pollfd what{from_, POLLIN, 0};
      const int ready = ::poll(&what, 1, static_cast<int>(left * 1e3) + 1);
      if (ready < 0 && errno != EINTR) return false;
      if (ready <= 0) continue;
      char part[4096];
      const ssize_t got = ::read(from_, part, one_line ? 1 : sizeof part);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return !one_line;
      into.append(part, static_cast<std::size_t>(got));
      if (one_line && into.back() == '\n') return true;
    }
  }

  void close_input() {
    if (to_ >= 0) ::close(to_);
    to_ = -1;
  }

  /// Its status, after it ended; killed if that takes longer.
  int wait(double seconds) {
    const double until = seconds_now() + seconds;
    int status = 0;
    while (::waitpid(id_, &status, WNOHANG) == 0) {
      if (seconds_now() >= until) {
        ::kill(id_, SIGKILL);
        ::waitpid(id_, &status, 0);
        break;
      }
      ::usleep(2000);
    }
    id_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

private:
  [[noreturn]] static void fail(const std::string& what, int code) {
    throw gsched::error(gsched::errc::io, what + ": " + std::strerror(code));
  }
  [[nodiscard]] static std::vector<std::string> joined(const variables& more) {
    std::vector<std::string> all;
    for (char** v = environ; *v != nullptr; ++v) {
      const std::string entry = *v;
      bool replaced = false;
      for (const auto& [name, value] : more) replaced |= entry.starts_with(name + "=");
      if (!replaced) all.push_back(entry);
    }
    for (const auto& [name, value] : more)
      if (!value.empty()) all.push_back(name + "=" + value);
    return all;
  }
  [[nodiscard]] static std::vector<char*> pointers(std::vector<std::string>& to) {
    std::vector<char*> all;
    for (std::string& s : to) all.push_back(s.data());
    all.push_back(nullptr);
    return all;
  }

  pid_t id_ = -1;
  int to_ = -1;
  int from_ = -1;
};

} // namespace experiment
