// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/occupancy/accountant.hpp>

#include <chrono>

namespace gsched {

/// How a server schedules, waits and gives up.
struct server_options {
  dispatch_options dispatch{};
  accountant_options account{};
  /// After the arrival of a request that names no deadline; zero: none.
  duration deadline{};
  /// The server's thread polls for so long after its last work, then it sleeps.
  duration spin = std::chrono::microseconds{50};
  /// The longest that a device call blocks while a kernel hangs. After that a waiting thread takes
  /// over: requests end as failed, and the server's thread is abandoned.
  duration longest_hang = std::chrono::seconds{23};
  /// Added to each decision, for experiments with slow schedulers.
  duration decision_delay{};
};

} // namespace gsched
