// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/run/configuration.hpp"

#include <gsched/device/device.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/job/job.hpp>
#include <gsched/job/profile.hpp>

#include <concepts>
#include <cstdint>
#include <optional>

namespace common {

/// The parts of a run that differ between a simulated and a real GPU, kept for one run:
///   make_device(configuration)            the device
///   make_body(profile, preemptibility, n) the job of a model, with n programs
///   spend(device, t)                      lets the host be busy for that time
///   submitted(job, segment, now), landed(segment, now)   called for each segment
///   busy(device)                          time in which the device ran something
///   rerun(device)                         blocks that ran twice, if they are counted
///   ended(device)                         the device takes no more requests
///   finish(device, statistics)            after the last request; throws what the device reports
template <class S>
concept backend =
    requires(S s, typename S::device& d, const configuration& how, const gsched::profile& p,
             const gsched::job& j, const gsched::segment& g, gsched::time_point t) {
      { s.make_device(how) } -> std::same_as<typename S::device>;
      { s.make_body(p, gsched::preemptibility::never, 1u) } -> std::same_as<typename S::body>;
      { s.spend(d, gsched::duration{}) } noexcept;
      { s.submitted(j, g, t) } noexcept;
      { s.landed(g.id, t) } noexcept;
      { s.busy(d) } -> std::same_as<gsched::duration>;
      { s.rerun(d) } noexcept -> std::same_as<std::optional<std::uint64_t>>;
      { s.ended(d) } noexcept -> std::same_as<bool>;
      { s.finish(d, gsched::dispatch_statistics{}) };
    };

} // namespace common
