// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/job/stream.hpp>

#include <cstdint>
#include <optional>

namespace gsched {

/// A kind of job that was registered with a dispatcher: its body and what it has learned of it.
enum class model_id : std::uint32_t {};

/// What is asked of a dispatcher for one job.
struct job_request {
  model_id model{};
  client* owner = nullptr; ///< of the same dispatcher; required
  service_class service = service_class::best_effort;
  /// When it was asked for, which may be before it is submitted; unset: when it is submitted.
  std::optional<time_point> arrival{};
  time_point deadline = no_deadline;
  default_stream streams = default_stream::legacy; ///< what stream_id{0} is in the body
  void* user = nullptr; ///< handed to the body's context and to the listener
  bool held = false;    ///< active, but it takes no instance and does not start before its release
  /// The job starts once that one has finished. If that one ends otherwise, this one ends as
  /// cancelled, and the listener hears why. A job that is not active counts as finished.
  std::optional<job_id> after{};
};

} // namespace gsched
