// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/gsched_c.h>
#include <gsched/interference/corun_pairs.hpp>

namespace gsched::abi {

/// What gsched_load_slow_downs reads. Throws refusal or gsched::error.
[[nodiscard]] named_slowdowns measured_slow_downs(const char* pairs);

/// What gsched_predict_slow_downs predicts. Throws refusal or gsched::error.
[[nodiscard]] named_slowdowns predicted_slow_downs(const char* profiles, const char* law,
                                                   const char* models);

/// An array of them with their names behind it, in one piece from std::malloc. Throws refusal.
[[nodiscard]] gsched_slow_down* in_one_piece(const named_slowdowns& all);

} // namespace gsched::abi
