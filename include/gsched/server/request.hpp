// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/job/job.hpp>
#include <gsched/server/request_record.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>

namespace gsched {

/// What is asked of a server.
struct server_request {
  model_id model{};   ///< of server::add_model
  client_id client{}; ///< of server::add_client
  service_class service = service_class::best_effort;
  /// When it arrived, which may be before it is submitted; unset: when it is submitted.
  std::optional<std::chrono::steady_clock::time_point> arrival{};
  /// After the arrival; unset: server_options::deadline; zero or less: none.
  std::optional<duration> deadline{};
  std::span<std::byte> payload{}; ///< inputs and outputs, for the body of a model that uses it
  /// Called once, at the end, on the server's thread: it must not wait for the server, or throw.
  std::function<void(request_record&)> done{};
  void* user = nullptr;
  void* wait_event = nullptr;   ///< it starts once this event of event_source has completed
  void* signal_event = nullptr; ///< recorded when it has ended
  /// It starts once this request of the same server has finished. If that one ends otherwise, it
  /// ends as cancelled.
  request_record* after = nullptr;
};

} // namespace gsched
