// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace interference {

/// One value that is looked for.
struct unknown {
  double start = 0;
  double step = 0.1; ///< in which it is tried, and of the size of which it is unsure at first
  double least = 0;
  double most = 1;
};

/// Looks for the values with the least sum of residuals: squared where they are small, and as they
/// are beyond `outlier`. Gauss and Newton's way, with differences in place of derivatives, or to
/// the best place looked at for these where that is better; with a weak pull to where it starts,
/// which decides what the residuals do not.
///
/// `residuals(values)` gives as many each time; they may jump. The search begins at `first`, if
/// that is not empty.
/// Errors   gsched::error (too_small) for fewer residuals than values, beginning with `what`.
[[nodiscard]] std::vector<double>
fit_values(const std::function<std::vector<double>(std::span<const double>)>& residuals,
           std::span<const unknown> unknowns, const char* what, double outlier = 0.1,
           std::span<const double> first = {});

} // namespace interference
