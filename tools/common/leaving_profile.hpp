// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>

namespace common {

/// The model as it were if the source of all its kernels were at hand, and they left as `leaves`
/// says: those in clusters are launched without, and copies and sets within the graph are kernels
/// that take as long. With leaving::never it is the profile as it stands.
[[nodiscard]] gsched::profile leaving_profile(gsched::profile of, gsched::leaving leaves);

} // namespace common
