// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

#include <exception>
#include <iostream>
#include <optional>

namespace parts {

/// Malformed input is the caller's, wherever it is noticed.
[[nodiscard]] inline bool is_input(const gsched::error& e) {
  return e.code() != gsched::errc::io && e.code() != gsched::errc::device_failed &&
         e.code() != gsched::errc::no_device;
}

/// A program's main: reads its options, which are none when help was asked for, and serves them.
/// Returns 0; 1 for a failure while running, 2 for a usage or input error, told in one line.
template <class Parse, class Serve>
int run_main(const char* program, int argc, char** argv, Parse parse, Serve serve) {
  constexpr int failed_while_running = 1;
  constexpr int bad_input = 2;
  const auto say = [&](const std::exception& e) {
    std::cerr << program << ": " << e.what() << '\n';
  };
  decltype(parse(argc, argv)) o;
  try {
    o = parse(argc, argv);
    if (!o) return 0;
  } catch (const std::exception& e) {
    say(e);
    return bad_input;
  }
  try {
    return serve(*o);
  } catch (const gsched::error& e) {
    say(e);
    return is_input(e) ? bad_input : failed_while_running;
  } catch (const std::exception& e) {
    say(e);
    return failed_while_running;
  }
}

} // namespace parts
