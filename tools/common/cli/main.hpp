// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cli/run_error.hpp"

#include <gsched/core/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <string>
#include <system_error>

namespace common {

/// Whether an error is of malformed or missing input, on the command line or in a file.
[[nodiscard]] inline bool is_input(const gsched::error& e) {
  return dynamic_cast<const run_error*>(&e) == nullptr && e.code() != gsched::errc::device_failed &&
         e.code() != gsched::errc::no_device && e.code() != gsched::errc::out_of_memory;
}

/// Opens a device that refuses writes in place of each closed standard stream, so that no file that
/// the program opens gets the stream's number.
inline void reserve_standard_streams() noexcept {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) == -1) // the lowest free number is fd
      static_cast<void>(::open(fd == STDOUT_FILENO ? "/dev/full" : "/dev/null", O_RDWR));
}

/// Errors   run_error where standard output did not take everything.
inline void flush_standard_output() {
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::cout && std::ferror(stdout) == 0) return;
  throw run_error(gsched::errc::io,
                  "standard output: writing failed, expected an open stream with room");
}

/// The main function of a program: parses the options, which are none when help was asked for, and
/// serves them. Returns the status of `serve`; 1 for a failure while running, which includes a
/// standard output that does not take the results; 2 for a usage or input error. Errors are printed
/// in one line.
template <class Parse, class Serve>
int run_main(const char* program, int argc, char** argv, Parse parse, Serve serve) {
  constexpr int failed_while_running = 1;
  constexpr int bad_input = 2;
  reserve_standard_streams();
  const auto print_error = [&](const std::string& line) {
    // Standard output first, so that the order of what is printed is kept.
    static_cast<void>(std::fflush(stdout));
    std::cerr << program << ": " << line << '\n';
  };
  bool parsed = false;
  try {
    auto o = parse(argc, argv);
    parsed = true;
    const int status = o ? serve(*o) : 0;
    flush_standard_output();
    return status;
  } catch (const gsched::error& e) {
    print_error(e.what());
    return is_input(e) || (!parsed && dynamic_cast<const run_error*>(&e) == nullptr)
               ? bad_input
               : failed_while_running;
  } catch (const std::bad_alloc&) {
    print_error("out of memory, expected input that fits into it");
    return failed_while_running;
  } catch (const std::system_error& e) { // fmt's, of standard output
    print_error(std::string(e.what()) + ", expected an open stream with room");
    return failed_while_running;
  } catch (const std::exception& e) {
    print_error(e.what());
    return parsed ? failed_while_running : bad_input;
  }
}

} // namespace common
