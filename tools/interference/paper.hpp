// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/coefficients.hpp>

#include <string>
#include <vector>

namespace interference {

/// A published measurement and what the law predicts.
struct published {
  std::string place;   ///< table or figure
  std::string what;    ///< the row
  double measured = 1; ///< a slow-down
  double predicted = 1;
  bool held = false; ///< the row fixes a number that the paper does not give
};

/// The measurements of Elvinger et al., SoCC 2025, doi:10.1145/3772052.3772270, beside predictions
/// from the utilisations that the paper gives. No coefficient is fitted on them.
///
/// Differs  where the paper does not give the demand of the victim, it follows from the last row of
///          the same table, which is marked; figures 3 and 4 give neither, so it is assumed there.
[[nodiscard]] std::vector<published>
published_measurements(const gsched::interference_coefficients& c);

} // namespace interference
