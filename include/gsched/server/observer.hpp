// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/server/request_record.hpp>

#include <cstdint>

namespace gsched {

/// Receives what a server's thread does, for traces and displays: server::observe. All
/// times are on CLOCK_MONOTONIC. A request that the dispatcher has not taken up is not reported; a
/// segment that was withdrawn before it started has no end.
///
/// Errors   a call neither blocks, throws nor calls the server.
/// Cost     without an observer, one test for each event.
/// Threads  the server's.
class server_observer {
public:
  server_observer() = default;
  server_observer(const server_observer&) = delete;
  server_observer& operator=(const server_observer&) = delete;
  virtual ~server_observer() = default;

  virtual void arrived(const request_record&, std::int64_t /*at_ns*/) noexcept {}
  /// A segment was submitted to a lane; `expected` is its time on the device.
  virtual void submitted(const request_record&, const segment&, duration /*expected*/,
                         std::int64_t /*at_ns*/) noexcept {}
  /// It has ended, or was preempted.
  virtual void segment_ended(const request_record&, segment_id, std::int64_t /*at_ns*/) noexcept {}
  /// The status is not yet written to the request.
  virtual void ended(const request_record&, request_status, std::int64_t /*at_ns*/) noexcept {}
  /// Best-effort work is being preempted; later it resumes.
  virtual void preempting(std::int64_t /*at_ns*/) noexcept {}
  virtual void restored(std::int64_t /*at_ns*/) noexcept {}
};

} // namespace gsched
