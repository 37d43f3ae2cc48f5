// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace gsched {

/// An exception as code and line.
struct described_error {
  std::error_code code;
  std::string line; ///< one line
};

/// Within a catch block. gsched::error and std::system_error keep their code; std::bad_alloc
/// becomes errc::out_of_memory, all else errc::job_threw.
[[nodiscard]] inline described_error describe_current_exception() {
  const auto one_line = [](std::string text) {
    for (char& c : text)
      if (c == '\n') c = ' ';
    return text;
  };
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {errc::out_of_memory, "out of host memory"};
  } catch (const std::system_error& e) {
    return {e.code(), one_line(e.what())};
  } catch (const std::exception& e) {
    return {errc::job_threw, one_line(e.what())};
  } catch (...) {
    return {errc::job_threw, "an unknown exception"};
  }
}
[[nodiscard]] inline described_error describe(std::exception_ptr why) {
  try {
    std::rethrow_exception(std::move(why));
  } catch (...) {
    return describe_current_exception();
  }
}

} // namespace gsched
