// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace gsched {

/// The state of an event that a request waits for.
struct event_answer {
  enum class kind : std::uint8_t { complete, pending, failed };
  kind what = kind::complete;
  int code = 0; ///< the driver's, if it failed
};

/// How a server queries and records events of the host program, such as CUDA events, by their
/// handles. An empty one: requests that name events fail.
///
/// Threads  the server's.
struct event_source {
  /// Queries an event once; neither waits nor throws.
  std::function<event_answer(void* event)> query;
  /// Records an event so that it completes at once, even while lanes hold work. Returns the
  /// driver's code, 0 on success. Does not throw, and blocks no longer than other driver calls.
  std::function<int(void* event)> record;
  /// The driver's text for a code.
  std::function<std::string(int code)> text;
  /// Whether a code blames the caller's handle rather than the device.
  std::function<bool(int code)> blames_caller;
};

/// The events of a server whose requests name none.
struct no_events {
  template <class Device>
  [[nodiscard]] event_source operator()(Device&) const {
    return {};
  }
};

} // namespace gsched
