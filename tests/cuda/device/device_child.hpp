// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace gsched::testing {

[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

/// The state of a process by the kernel's name: running, sleeping, in an uninterruptible call of
/// the driver, or a zombie that the driver is still cleaning up.
[[nodiscard]] inline std::string state_of(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("State:", 0) == 0) return line.substr(line.find_first_not_of(" \t", 6));
  return "unknown";
}

/// Runs a skipped test case in a process of its own, because it leaves CUDA in an error state.
/// Returns an empty string if it passed in time, else what happened.
[[nodiscard]] inline std::string run_child(const std::string& test_case, int seconds) {
  std::fflush(stdout);
  std::string filter = "-tc=" + test_case;
  char program[] = "/proc/self/exe";
  char no_skip[] = "--no-skip";
  char* arguments[] = {program, filter.data(), no_skip, nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, program, nullptr, nullptr, arguments, environ) != 0)
    return "it did not start";
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{seconds};
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
      return WEXITSTATUS(status) == 0 ? "" : "exit " + std::to_string(WEXITSTATUS(status));
    }
    if (std::chrono::steady_clock::now() > until) {
      const std::string state = state_of(child);
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return "it hung for " + std::to_string(seconds) + " s, state " + state;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
}

/// The result of a child. The child exits without the destructors of static objects, because they
/// may block on a GPU that hangs.
class verdict {
public:
  void need(bool good, const char* what) noexcept {
    if (good) return;
    print("not so: ", what);
    good_ = false;
  }
  void say(const std::string& line) const noexcept { print("", line.c_str()); }
  [[noreturn]] void leave() const noexcept {
    std::fflush(stdout);
    std::_Exit(good_ ? 0 : 2);
  }

private:
  static void print(const char* how, const char* line) noexcept {
    std::printf("child: %s%s\n", how, line);
    std::fflush(stdout); // a child that hangs is killed
  }
  bool good_ = true;
};

} // namespace gsched::testing
