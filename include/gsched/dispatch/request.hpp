// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/job/stream.hpp>

#include <cstdint>
#include <optional>

namespace gsched {

/// A model, registered with a dispatcher: the body of a kind of job, and the learned estimates of
/// its work.
enum class model_id : std::uint32_t {};

/// A request for one job.
struct job_request {
  model_id model{};
  client* owner = nullptr; ///< a client of the same dispatcher; required
  service_class service = service_class::best_effort;
  /// The time of the request, which may be before its submission. Unset: the time of the
  /// submission.
  std::optional<time_point> arrival{};
  time_point deadline = no_deadline;
  default_stream streams = default_stream::legacy; ///< the meaning of stream_id{0} in the body
  void* user = nullptr; ///< passed to the body's context and to the listener
  bool held = false;    ///< active, but takes no instance and does not start before its release
  /// The job starts once that job has finished. If that job ends otherwise, this one ends as
  /// cancelled, and the listener receives the reason. A job that is not active counts as finished.
  std::optional<job_id> after{};
};

} // namespace gsched
