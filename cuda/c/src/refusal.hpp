// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/gsched_c.h>

#include <exception>
#include <string>
#include <system_error>
#include <utility>

namespace gsched::abi {

/// How a call is refused: its code and its line.
class refusal : public std::exception {
public:
  refusal(gsched_code code, std::string line) : code_(code), line_(std::move(line)) {}
  [[nodiscard]] const char* what() const noexcept override { return line_.c_str(); }
  [[nodiscard]] gsched_code code() const noexcept { return code_; }

private:
  gsched_code code_;
  std::string line_;
};

/// GSCHED_OK for none.
[[nodiscard]] gsched_code code_of(const std::error_code& e) noexcept;

/// Within a catch block: what it was, as code and line.
[[nodiscard]] refusal refusal_of_current_exception();

/// The same for what was thrown elsewhere.
[[nodiscard]] inline refusal refusal_of(std::exception_ptr why) {
  try {
    std::rethrow_exception(why);
  } catch (...) {
    return refusal_of_current_exception();
  }
}

} // namespace gsched::abi
