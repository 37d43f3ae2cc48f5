// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/options.hpp"

#include "common/run/configuration.hpp"

namespace realtime {

/// The settings of the dispatcher for a mode.
[[nodiscard]] configuration configuration_of(mode m, const options& from);

/// Where best-effort kernels can be preempted in a mode.
[[nodiscard]] gsched::preemptibility leaving_of(mode m, const options& from) noexcept;

} // namespace realtime
