// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/io/csv_table.hpp>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace gsched::testing {

/// The error line of a call; "none" if it does not throw.
template <class F>
[[nodiscard]] std::string refusal(F f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "none";
}

[[nodiscard]] inline csv_table csv(const std::string& text, const std::vector<std::string>& columns,
                                   const std::vector<std::string>& may_be_missing = {}) {
  return csv_table(std::make_unique<std::istringstream>(text), "t.csv", columns, may_be_missing);
}

} // namespace gsched::testing
