// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/pairs.hpp"

namespace padding {

/// Matrix products with copies: as one padded kernel, one after another, and on two branches.
void measure_fused(const bench& b, results& out);
/// Host time of a selection and of a launch.
void measure_selection(const bench& b, results& out);

} // namespace padding
