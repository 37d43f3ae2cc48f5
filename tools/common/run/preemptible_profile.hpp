// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>

namespace common {

/// The profile of the same model with preemptible kernels, as if all of them had source: kernels in
/// clusters are launched without, and copies and sets within the graph become kernels that take as
/// long. With preemptibility::never it is the profile unchanged.
[[nodiscard]] gsched::profile preemptible_profile(gsched::profile of,
                                                  gsched::preemptibility leaves);

} // namespace common
