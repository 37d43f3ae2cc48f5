// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/manner.hpp"

#include <gsched/device/device.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/job/job.hpp>
#include <gsched/job/profile.hpp>

#include <concepts>
#include <cstdint>
#include <optional>

namespace common {

/// What a platform makes a run of, kept for that run:
///   device            the type, and device make_device(const manner&)
///   body              the type of a model's job, with program(), and body make_body(profile,
///   leaving) spend(device, t)  the host does something else submitted(job, segment, now),
///   landed(segment, now): told of each segment busy(device)      time in which the device worked
///   rerun(device)     blocks that ran again though they had ended, if it counts them
///   ended(device)     no more requests shall come
///   finish(device, statistics): after the last request; may throw
// Version 14 of the formatter takes compound requirements apart.
// clang-format off
template <class S>
concept stage = requires(S s, typename S::device& d, const manner& how, const gsched::profile& p,
                         const gsched::job& j, const gsched::segment& g, gsched::time_point t) {
  { s.make_device(how) } -> std::same_as<typename S::device>;
  { s.make_body(p, gsched::leaving::never, 1u) } -> std::same_as<typename S::body>;
  { s.spend(d, gsched::duration{}) } noexcept;
  { s.submitted(j, g, t) } noexcept;
  { s.landed(g.id, t) } noexcept;
  { s.busy(d) } -> std::same_as<gsched::duration>;
  { s.rerun(d) } noexcept -> std::same_as<std::optional<std::uint64_t>>;
  { s.ended(d) } noexcept -> std::same_as<bool>;
  { s.finish(d, gsched::dispatch_statistics{}) };
};
// clang-format on

} // namespace common
