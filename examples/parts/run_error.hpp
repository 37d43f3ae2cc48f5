// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

namespace parts {

/// A failure while running that is not the input's fault, whatever its code: a file that cannot be
/// written, a command that failed.
class run_error : public gsched::error {
public:
  using gsched::error::error;
};

} // namespace parts
