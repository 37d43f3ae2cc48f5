// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"

#include "common/manner.hpp"

#include <string>

namespace serve_mix {

/// For a policy, and for the two ways of not scheduling at all, direct and single.
[[nodiscard]] manner manner_of(const std::string& policy, const options& from);

} // namespace serve_mix
