// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda_tools/probe.hpp>

#include <vector>

namespace measure {

/// How long a probe that is measured like a graph runs, in microseconds.
inline constexpr double probe_us = 200;

/// The probes of a GPU with so many SMs: each kind at its usual level, some at others, and
/// copies by fewer and fewer SMs. `kinds` are those wanted; empty: all.
[[nodiscard]] std::vector<gsched::cuda::probe_options>
probe_list(gsched::sm_count sms, const std::vector<gsched::cuda::probe_kind>& kinds);

} // namespace measure
