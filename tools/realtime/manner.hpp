// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/options.hpp"

#include "common/manner.hpp"

namespace realtime {

/// How the dispatcher is set for a mode.
[[nodiscard]] manner manner_of(mode m, const options& from);

/// Best-effort kernels in a mode, where --leaves does not say.
[[nodiscard]] gsched::leaving leaving_of(mode m, const options& from) noexcept;

} // namespace realtime
