// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/gsched_c.h>
#include <gsched/interference/corun_pairs.hpp>

#include <string>

namespace gsched::abi {

/// What gsched_load_slow_downs reads. Throws refusal or gsched::error.
[[nodiscard]] named_slowdowns measured_slow_downs(const char* pairs);

/// Predicted slow-downs, and a line on those that are extrapolations; empty if none is.
struct predicted_slowdowns {
  named_slowdowns all;
  std::string beyond_fit;
};

/// What gsched_predict_slow_downs predicts. Throws refusal or gsched::error.
[[nodiscard]] predicted_slowdowns predicted_slow_downs(const char* profiles, const char* law,
                                                       const char* models);

/// An array of them in one piece of memory with their names and a line on those that are
/// extrapolations, which line_of returns. Throws refusal.
[[nodiscard]] gsched_slow_down* in_one_piece(const named_slowdowns& all,
                                             const std::string& line = {});
[[nodiscard]] const char* line_of(const gsched_slow_down* rows) noexcept;
void free_rows(gsched_slow_down* rows) noexcept; ///< null is allowed

} // namespace gsched::abi
