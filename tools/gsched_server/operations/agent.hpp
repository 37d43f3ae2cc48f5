// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/operations/load.hpp"
#include "gsched_server/settings/address.hpp"

#include <memory>
#include <string>

namespace gsched_server {

class service;

/// The line that an agent of HAProxy gives: "up ready 87%", "drain" or "down#...". The weight is
/// what load_figures::fill leaves, at least 1%, as a server of weight 0 gets no requests at all.
[[nodiscard]] std::string agent_line(const load_figures& l);

/// The port for HAProxy's agent checks: each connection gets one line at once. What it sends is
/// ignored.
///
/// Source   HAProxy Configuration Manual, "agent-check".
/// Threads  one owner; connections come on threads of its own.
class agent {
public:
  /// Listens. The service outlives it.
  /// Errors   run_error for an address that cannot be used.
  agent(service& of, const address& at);
  ~agent();
  agent(const agent&) = delete;
  agent& operator=(const agent&) = delete;

  /// Where it listens, with the port that it has.
  [[nodiscard]] const address& listens_at() const noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched_server
