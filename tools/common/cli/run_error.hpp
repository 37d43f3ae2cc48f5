// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

#include <string>

namespace common {

/// A failure while running, not of the input, with any code: a file that cannot be written, a
/// command that failed.
class run_error : public gsched::error {
public:
  run_error(gsched::errc code, const std::string& what_where_expected,
            gsched::source_location at = gsched::source_location::current())
      : error(code, what_where_expected, at) {}
};

} // namespace common
