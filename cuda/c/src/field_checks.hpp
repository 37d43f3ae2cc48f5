// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "refusal.hpp"

#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>

#include <string>

namespace gsched::abi {

[[noreturn]] inline void refuse(const std::string& line) {
  throw refusal(GSCHED_BAD_ARGUMENT, line);
}

/// Microseconds as a duration; refused by the name of the field.
[[nodiscard]] inline duration time_of(const char* field, double us, double least_us,
                                      double most_us) {
  if (!(us >= least_us && us <= most_us))
    throw refusal(GSCHED_BAD_ARGUMENT, std::string(field) + " " + number_text(us) + ", expected " +
                                           number_text(least_us) + " to " + number_text(most_us));
  return from_us(us);
}

inline void refuse_unless(bool good, const char* field, const char* expected) {
  if (!good) throw refusal(GSCHED_BAD_ARGUMENT, std::string(field) + ": expected " + expected);
}

} // namespace gsched::abi
