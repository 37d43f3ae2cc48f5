// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"

#include "common/run/configuration.hpp"

#include <string>

namespace serve_mix {

/// For a policy, or for one of the two ways without a scheduler, direct and single.
[[nodiscard]] configuration configuration_of(const std::string& policy, const options& from);

} // namespace serve_mix
