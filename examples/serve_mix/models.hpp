// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"

#include <gsched/job/profile.hpp>
#include <gsched/occupancy/limits.hpp>

#include <vector>

namespace serve_mix {

/// The profiles of the mix, in its order, each kernel of which an SM has room for.
/// Errors   gsched::error with one line that names the file, the place and what was expected.
[[nodiscard]] std::vector<gsched::profile> load_models(const options& from,
                                                       const gsched::architecture_limits& sm);

} // namespace serve_mix
