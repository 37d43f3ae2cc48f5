// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/pairs.hpp"
#include "padding/predictions.hpp"

#include <optional>

namespace padding {

/// Counts each kernel alone, in a proxy without other parts, and predicts from it. Empty, with one
/// line on stderr, where kernels cannot be counted.
///
/// Errors   io, bad_profile: the file of coefficients, or that of counters.
[[nodiscard]] std::optional<predictions> predict(const bench& b, results& out);

} // namespace padding
